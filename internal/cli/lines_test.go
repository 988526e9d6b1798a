package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*maxLine)
	fits := strings.Repeat("y", maxLine-2)
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", nil},
		{"no end", "a\nb", []string{"1 a", "2 b"}},
		{"blank lines count", "\n a \r\n\n\nb\n", []string{"2 a", "5 b"}},
		{"too long", "a\n" + long + "\nb\n", []string{"1 a", "2 too long", "3 b"}},
		{"too long at the end", "a\n" + long, []string{"1 a", "2 too long"}},
		{"the longest", fits + "\r\nb", []string{"1 " + fits, "2 b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLines(iotest.HalfReader(strings.NewReader(c.text)))
			var got []string
			for {
				line, n, err := l.next()
				if errors.Is(err, io.EOF) {
					break
				}
				switch {
				case errors.Is(err, errLongLine):
					line = []byte("too long")
				case err != nil:
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%d %s", n, line))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %.200q, want %.200q", got, c.want)
			}
			if l.read != int64(len(c.text)) {
				t.Errorf("read %d bytes, want %d", l.read, len(c.text))
			}
		})
	}
}

func TestLinesReturnsReadError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	l := newLines(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)))
	if line, _, err := l.next(); string(line) != "a" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if line, _, err := l.next(); !errors.Is(err, broken) {
		t.Errorf("a half line: %q, %v", line, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
