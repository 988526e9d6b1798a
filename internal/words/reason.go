package words

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// Reason says what the reason of a dead letter of that state means, and what to do about
// it, as docs/reasons.md has it; "" for a reason that it does not explain.
func Reason(s push.State, reason string) (means, do string) {
	all := reasons()
	r := all.others[reason]
	if s == store.Malformed {
		r = all.malformed[reason]
	}
	return r[0], r[1]
}

// Reasons are those that docs/reasons.md explains, sorted.
func Reasons() []string {
	all := reasons()
	names := maps.Clone(all.others)
	maps.Copy(names, all.malformed)
	return slices.Sorted(maps.Keys(names))
}

type explained map[string][2]string

var reasons = sync.OnceValue(func() (all struct{ malformed, others explained }) {
	all.malformed, all.others = explained{}, explained{}
	var into explained
	for line := range strings.Lines(pushpace.ReasonsMD) {
		if title, is := strings.CutPrefix(line, "## "); is {
			into = nil
			if of, is := strings.CutPrefix(title, "Reasons of "); is {
				into = all.others
				if strings.HasPrefix(of, "malformed") {
					into = all.malformed
				}
			}
		}
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if into == nil || len(cells) != 3 || !strings.HasPrefix(cells[0], "`") {
			continue
		}
		for name := range strings.SplitSeq(cells[0], ", ") {
			into[strings.Trim(name, "`")] = [2]string{plain(cells[1]), plain(cells[2])}
		}
	}
	return all
})

var link = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// plain is a text of Markdown without its marks.
func plain(text string) string {
	return strings.ReplaceAll(link.ReplaceAllString(text, "$1"), "`", "")
}
