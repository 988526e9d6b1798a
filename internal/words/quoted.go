package words

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quoted is a name as it can be printed in a line or a column, and typed into a
// shell: in the shell's own quotes, only where it needs them; "-" for none. One
// with what cannot be printed cannot be typed either, and is in Go's.
func Quoted(name string) string {
	if name == "" {
		return "-"
	}
	printable := func(r rune) bool { return strconv.IsPrint(r) && r != utf8.RuneError }
	odd := func(r rune) bool {
		return r > unicode.MaxASCII && !unicode.IsLetter(r) || r == ' ' || strings.ContainsRune("\"'`\\$&|;<>()*?[]#~!{}", r)
	}
	switch {
	case strings.ContainsFunc(name, func(r rune) bool { return !printable(r) }):
		return strconv.Quote(name)
	case name == "-" || strings.ContainsFunc(name, odd):
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}
