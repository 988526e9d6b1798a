// Package names has the common rule for names that people type: apps, users, categories, keys. The
// rule rejects names that look like a different name.
package names

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxBytes bounds the names of apps, users, categories and operators, which are parts of keys,
// labels and log lines. The JSON schema of notifications has the same bound.
const MaxBytes = 128

// Fault returns the first problem of a name, which may have at most maxBytes bytes; "" for none. An
// empty name has no problem.
func Fault(name string, maxBytes int) string {
	if fault := Ends(name); fault != "" {
		return fault
	}
	return Text(name, maxBytes)
}

// Text is Fault without the rule for both ends, for names that an older version accepted.
func Text(name string, maxBytes int) string {
	if len(name) > maxBytes || !isPlain(name) {
		return fmt.Sprintf("must be UTF-8 without control characters and characters that cannot be seen, of at most %d bytes", maxBytes)
	}
	return ""
}

// Ends returns the problem at an end of a name, white space or an invisible character; "" for none.
func Ends(name string) string {
	first, _ := utf8.DecodeRuneInString(name)
	last, _ := utf8.DecodeLastRuneInString(name)
	switch {
	case name == "":
		return ""
	case isBlank(first):
		return "begins with " + nameOf(first) + ": remove it"
	case isBlank(last):
		return "ends in " + nameOf(last) + ": remove it"
	}
	return ""
}

func nameOf(r rune) string {
	switch {
	case r == ' ':
		return "a space"
	case unicode.IsSpace(r):
		return fmt.Sprintf("white space (U+%04X)", r)
	}
	return fmt.Sprintf("a character that cannot be seen (U+%04X)", r)
}

// isBlank reports whether a character is invisible at the end of a name, also Braille's blank, for
// Unicode a symbol, and Hangul's fillers, for Unicode letters.
func isBlank(r rune) bool {
	const braille = '\u2800'
	return unicode.IsSpace(r) || r == braille || unicode.In(r, unicode.Zs, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// isPlain reports whether s is UTF-8 without control characters and without characters that cannot
// be seen: line and paragraph separators, and direction marks. These would garble a line of the log
// or of a list. It allows the two joiners, which some languages need.
func isPlain(s string) bool {
	const zwnj, zwj = '\u200c', '\u200d'
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != zwnj && r != zwj
	})
}
