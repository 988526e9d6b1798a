// Package progress has the bar that commands draw on a terminal.
package progress

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// OnTerminal reports whether the file is a terminal.
func OnTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// New returns a bar that is full at size and disappears at its end.
func New(w io.Writer, size int64, options ...progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(size, append([]progressbar.Option{
		progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(20), progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "█", SaucerPadding: "░"}), progressbar.OptionClearOnFinish(),
	}, options...)...)
}

// WithoutTimes is an option: the bar shows no times.
func WithoutTimes(b *progressbar.ProgressBar) {
	progressbar.OptionSetPredictTime(false)(b)
	progressbar.OptionSetElapsedTime(false)(b)
}
