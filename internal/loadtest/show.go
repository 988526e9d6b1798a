package loadtest

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/pushpace/pushpace/internal/cli/progress"
)

// showEvery is the time between two lines of progress without a terminal.
const showEvery = 5 * time.Second

// A show prints the progress on standard error: a bar on a terminal, lines elsewhere.
type show struct {
	size  int
	start time.Time
	bar   *progressbar.ProgressBar // nil where there is no terminal
	next  time.Time                // when the next line of progress is due
}

func newShow(size int) *show {
	s := &show{size: size, start: time.Now()}
	s.next = s.start.Add(showEvery)
	if progress.OnTerminal(os.Stderr) {
		s.bar = progress.New(os.Stderr, int64(size), progress.WithoutTimes)
	}
	return s
}

// update shows how many notifications have arrived, and how many arrived a second.
func (s *show) update(delivered int64, rate float64) {
	text := fmt.Sprintf("delivered %s of %s, %s a second", grouped(int(delivered)), grouped(s.size), grouped(int(rate)))
	if s.bar != nil {
		s.bar.Describe(text)
		_ = s.bar.Set64(delivered)
	} else if now := time.Now(); now.After(s.next) {
		s.next = now.Add(showEvery)
		s.line("%s", text)
	}
}

// line prints a line in place of the bar.
func (s *show) line(format string, args ...any) {
	s.end()
	fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// end removes the bar until the next update.
func (s *show) end() {
	if s.bar != nil {
		_ = s.bar.Clear()
	}
}
