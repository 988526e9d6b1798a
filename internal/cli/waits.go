package cli

import (
	"time"

	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/worker/control"
)

// printWaits says what a notification waits for, and until when.
func printWaits(line func(name, format string, args ...any), s *control.Status, now time.Time) {
	w := s.Waits
	told := len(s.Paused) > 0 && (w.For == control.ForPause || w.For == control.ForProvider)
	if !told {
		for _, p := range words.Pauses(s, now) {
			line("paused", "%s", p)
		}
	}
	for _, what := range words.Waits(s, now) {
		line("waits for", "%s", what)
	}
	if told {
		return
	}
	if left := w.Until.Sub(now); left > 0 {
		line("until", "%s, in %s", words.Stamp(w.Until), left.Round(time.Second))
	} else if !w.Until.IsZero() {
		line("until", "%s, now", words.Stamp(w.Until))
	}
	if w.For == control.ForLimit { // else it is told
		line("by", "%s", words.Limit(w.Scope, w.Rule, 0))
	}
	if w.For.HasSlot() {
		line("see", "pushpace timeline --app %s %s, for the user's limits and who is ahead", words.Quoted(s.App), words.Quoted(s.User))
	}
}
