package words

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quoted returns a name for a line or a column, quoted for a shell if it needs quotes; "-" for
// an empty name. A name with unprintable characters has Go's quotes, because it cannot be typed.
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
