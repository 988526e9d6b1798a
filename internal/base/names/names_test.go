package names

import (
	"strings"
	"testing"
)

func TestFault(t *testing.T) {
	t.Parallel()
	const plain = "must be UTF-8 without control characters and characters that cannot be seen, of at most 8 bytes"
	for name, want := range map[string]string{
		"": "", "ada": "", "a b": "", "é": "", "ا\u200cا": "", "\ufffd": "", "a\u00a0b": "", "_a-": "", "❤\ufe0f": "",
		"dup ": "ends in a space: remove it", " dup": "begins with a space: remove it", " ": "begins with a space: remove it",
		"dup\t": "ends in white space (U+0009): remove it", "dup\n": "ends in white space (U+000A): remove it", "dup\r\n": "ends in white space (U+000A): remove it",
		"dup\u00a0": "ends in white space (U+00A0): remove it", "dup\u3000": "ends in white space (U+3000): remove it", "\u2003a": "begins with white space (U+2003): remove it",
		"a\u0085": "ends in white space (U+0085): remove it", "a\u2028": "ends in white space (U+2028): remove it", "a\u202f": "ends in white space (U+202F): remove it",
		"dup\u200b": "ends in a character that cannot be seen (U+200B): remove it", "\ufeffa": "begins with a character that cannot be seen (U+FEFF): remove it",
		"dup\u200d": "ends in a character that cannot be seen (U+200D): remove it", "a\u00ad": "ends in a character that cannot be seen (U+00AD): remove it",
		"a\u3164": "ends in a character that cannot be seen (U+3164): remove it", "a\u2800": "ends in a character that cannot be seen (U+2800): remove it",
		"a\nb": plain, "a\x00": plain, "a\u200bb": plain, "a\u2066b": plain, "\xff": plain, "a\x7f": plain, strings.Repeat("x", 9): plain,
	} {
		if got := Fault(name, 8); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestTextAllowsSpacesAtEnds(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{"dup ": true, "\u00a0": true, "": true, "a\n": false, "\u200bb": false, "123456789": false} {
		if got := Text(name, 8); (got == "") != good {
			t.Errorf("%q: %q", name, got)
		}
	}
}
