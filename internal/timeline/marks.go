package timeline

import "strconv"

// marks are the characters of a drawing.
type marks struct {
	one, many   rune // an entry in a column, and more than nine
	now         rune
	open, in    rune // a window: where it begins, and inside
	used, free  rune // of a window that is full: until it is free, and when
	quiet       rune
	full, empty string
	cut         string
	coloured    bool
}

var (
	ascii   = marks{'o', '#', '|', '[', '-', '.', '>', '=', "#", ".", "~", false}
	colours = marks{'●', '#', '│', '├', '─', '╌', '▸', '▒', "█", "░", "…", true}
)

// A paint is an SGR parameter.
type paint string

const (
	none   paint = ""
	bold   paint = "1"
	dim    paint = "2"
	red    paint = "31"
	green  paint = "32"
	yellow paint = "33"
)

func (m *marks) paint(p paint, text string) string {
	if !m.coloured || p == none || text == "" {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

// count is what stands in a column for n entries.
func (m *marks) count(n int) rune {
	switch {
	case n == 1:
		return m.one
	case n <= 9:
		return rune(strconv.Itoa(n)[0])
	}
	return m.many
}
