package console

import (
	"fmt"
	"testing"
)

// Letters that read from right to left stand apart, with what is between them, and the
// rest of a sentence does not move.
func TestPieces(t *testing.T) {
	t.Parallel()
	for sentence, want := range map[string]string{
		"":                              "[{ false}]",
		"3 wait for ada":                "[{3 wait for ada false}]",
		"שלום: 3 wait":                  "[{ false} {שלום true} {: 3 wait false}]",
		"user שלום 123 עולם of shop, 3": "[{user  false} {שלום 123 עולם true} { of shop, 3 false}]",
		"שלום a عالم":                   "[{ false} {שלום true} { a  false} {عالم true} { false}]",
		"\u202eshop":                    `[{\u202eshop false}]`,
	} {
		if got := fmt.Sprint(pieces(sentence)); got != want {
			t.Errorf("%q: %s, want %s", sentence, got, want)
		}
	}
}
