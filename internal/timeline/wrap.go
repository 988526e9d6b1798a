package timeline

import (
	"strings"

	"github.com/rivo/uniseg"
)

// wrap breaks the text at spaces into lines of at most that width, where its
// words allow.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && uniseg.StringWidth(line)+1+uniseg.StringWidth(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// fit pads the text to the width, or cuts it there.
func fit(text string, width int, cut string) string {
	if w := uniseg.StringWidth(text); w <= width {
		return text + strings.Repeat(" ", width-w)
	}
	var b strings.Builder
	left := width - uniseg.StringWidth(cut)
	for g := uniseg.NewGraphemes(text); g.Next() && g.Width() <= left; {
		b.WriteString(g.Str())
		left -= g.Width()
	}
	return b.String() + cut + strings.Repeat(" ", left)
}
