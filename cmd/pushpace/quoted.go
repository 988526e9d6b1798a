package main

import (
	"strconv"
	"strings"
	"unicode"
)

// quoted is a name as it can be printed in a line or a column, and typed into a
// shell: in quotes only where it needs them; "-" for none.
func quoted(name string) string {
	if name == "" {
		return "-"
	}
	odd := func(r rune) bool {
		return r > unicode.MaxASCII && !unicode.IsLetter(r) || r <= ' ' || r == 0x7f || strings.ContainsRune("\"'`\\$&|;<>()*?[]#~!{}", r)
	}
	if q := strconv.Quote(name); name == "-" || strings.ContainsFunc(name, odd) || q != `"`+name+`"` {
		return q
	}
	return name
}
