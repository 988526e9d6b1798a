package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// A screen shows the demo live: a bar, counters and what the noisy user
// receives on a terminal, a line a second elsewhere.
type screen struct {
	out   io.Writer
	start time.Time
	bar   *progressbar.ProgressBar // on a terminal
	line  time.Time                // when the last line was written
	shown int                      // entries of the ledger
	last  time.Time                // when the noisy user received the last limited one
}

func newScreen(silent bool, cfg *config.Config) *screen {
	s := &screen{out: os.Stderr, start: time.Now(), line: time.Now()}
	if silent {
		s.out = io.Discard
		return s
	}
	if cfg.Redis.Address.Mode == config.Embedded {
		fmt.Fprintln(s.out, "The embedded Redis keeps nothing: what the demo does is gone when it ends.")
	}
	fmt.Fprintf(s.out, "%d users, each with %s. Codes are exempt.\n", len(demoUsers), describe(cfg.Limits))
	fmt.Fprintf(s.out, "A chat sends %s 10 messages at once.", noisyUser)
	if !onTerminal(os.Stderr) {
		fmt.Fprintln(s.out)
	} else {
		fmt.Fprintf(s.out, " They arrive (± %s on the way):\n", tolerance)
		s.bar = progressbar.NewOptions(1,
			progressbar.OptionSetWriter(s.out), progressbar.OptionSetWidth(20), progressbar.OptionSetTheme(barTheme),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionClearOnFinish())
	}
	return s
}

// describe writes the general policy and the marketing's for a person.
func describe(l config.Limits) string {
	parts := make([]string, 0, 4)
	if l.Default.MinGap > 0 {
		parts = append(parts, fmt.Sprintf("a gap of %s", l.Default.MinGap))
	}
	for _, r := range l.Default.Rates {
		parts = append(parts, r.String())
	}
	for _, r := range l.Categories["marketing"].Rates {
		parts = append(parts, "marketing "+r.String())
	}
	if len(parts) == 0 {
		return "no limit"
	}
	return strings.Join(parts, ", ")
}

// show brings the screen up to date.
func (s *screen) show(mix []planned, c ledger.Counts, ledger []standin.Entry) {
	ended := c.Accepted - c.Waiting()
	counters := fmt.Sprintf("delivered %d  deferred %d  waiting %d", c.Ended[push.Delivered], c.Deferred, c.Waiting())
	if s.bar == nil {
		if now := time.Now(); now.Sub(s.line) >= time.Second {
			s.line = s.line.Add(time.Second)
			fmt.Fprintf(s.out, "%3.0fs  %s  of %d\n", now.Sub(s.start).Seconds(), counters, len(mix))
		}
		return
	}
	for _, e := range ledger[s.shown:] {
		if n := plannedBy(mix, e.Notification); n != nil && n.User == noisyUser {
			_ = s.bar.Clear()
			s.tell(e, n)
		}
	}
	s.shown = len(ledger)
	s.bar.ChangeMax(len(mix))
	s.bar.Describe(counters)
	_ = s.bar.Set64(ended)
}

// tell writes what the noisy user has received.
func (s *screen) tell(e standin.Entry, n *push.Notification) {
	note := "the first"
	switch {
	case n.Category == "security":
		note = "at once: " + n.Category + " is exempt"
	case !s.last.IsZero():
		note = fmt.Sprintf("%.3f s after the one before", e.At.Sub(s.last).Seconds())
	}
	if n.Category != "security" {
		s.last = e.At
	}
	fmt.Fprintf(s.out, "  %5.1fs  %-24s %s\n", e.At.Sub(s.start).Seconds(), n.Title, note)
}

// end takes the bar away.
func (s *screen) end() {
	if s.bar != nil {
		_ = s.bar.Clear()
	}
}

func plannedBy(mix []planned, id string) *push.Notification {
	for i := range mix {
		if mix[i].n.ID == id {
			return &mix[i].n
		}
	}
	return nil
}
