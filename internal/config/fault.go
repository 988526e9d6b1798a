package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Fault is one error of a configuration.
type Fault struct {
	File     string // "" when the value is from the environment
	Line     int    // from 1; 0 when the file has no such line
	Column   int    // from 1; 0 when Line is 0
	Variable string // the environment variable that gave the value, or ""
	Key      string // the path, such as limits.default.rates[0]; "" for a syntax error
	Message  string // what is wrong and what is expected, without any secret
}

// Error is FILE:LINE:COLUMN: KEY: MESSAGE, or VARIABLE: KEY: MESSAGE.
func (f Fault) Error() string {
	var parts []string
	switch {
	case f.Variable != "":
		parts = append(parts, f.Variable)
	case f.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column))
	case f.File != "":
		parts = append(parts, f.File)
	}
	if f.Key != "" {
		parts = append(parts, f.Key)
	}
	return strings.Join(append(parts, f.Message), ": ")
}

// Faults are all errors of a configuration, in the order of the file; errors
// of the environment are last.
type Faults []Fault

// Error returns one fault a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

func (fs Faults) orNil() error {
	if len(fs) == 0 {
		return nil
	}
	fs.sort()
	return fs
}

// sort sorts by the place in the file; faults of the environment are last.
func (fs Faults) sort() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(
			cmp.Compare(a.Variable, b.Variable),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Key, b.Key),
		)
	})
}

// join appends names to a key's path, and quotes names that are not plain.
func join(path string, names ...string) string {
	for _, name := range names {
		if !plainName(name) {
			name = strconv.Quote(name)
		}
		if path != "" {
			path += "."
		}
		path += name
	}
	return path
}

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// parent is the path without its last part; "" for a path of one part.
func parent(path string) string {
	if strings.HasSuffix(path, `"`) {
		for i := len(path) - 2; i >= 0; i-- {
			if path[i] == '"' && (i == 0 || path[i-1] == '.') {
				return strings.TrimSuffix(path[:i], ".")
			}
		}
		return ""
	}
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// shownName reports whether an unknown key may be shown: it looks like a key, apart from spaces,
// dots and characters outside ASCII, such as an invisible space.
func shownName(name string) bool {
	return plainName(strings.Map(func(r rune) rune {
		if r == ' ' || r == '.' || r > unicode.MaxASCII {
			return -1
		}
		return r
	}, name))
}

// plainName reports whether name looks like a key. Any other text may be a value that a wrong
// indentation turned into a key.
func plainName(name string) bool {
	const longest = 64
	if name == "" || len(name) > longest {
		return false
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return true
}
