// Package filewatch notices that files have changed.
package filewatch

import (
	"context"
	"os"
	"slices"
	"time"
)

// Interval is how often files are looked at unless a test says otherwise. A
// change is noticed after one to two intervals.
const Interval = 5 * time.Second

// A Watch is over a set of files. It looks at them by name and follows symbolic
// links, so that a file that is replaced, or is a mounted Kubernetes secret, is
// seen like one that is rewritten.
type Watch struct {
	files []string
	known []stamp
}

// New returns a watch that takes the files as they are now for known. Empty
// names are left out. Call it before the files are read, so that no change is
// missed in between.
func New(files ...string) *Watch {
	files = slices.DeleteFunc(files, func(file string) bool { return file == "" })
	w := &Watch{files: files}
	w.known = w.look()
	return w
}

// Run calls changed after every change of the files, until ctx ends. It looks
// every interval, and calls once the files have stayed the same for one, so
// that a file that is being written, or the first of two that belong together,
// is left alone.
func (w *Watch) Run(ctx context.Context, interval time.Duration, changed func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := w.known
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := w.look()
		settled := slices.EqualFunc(now, last, stamp.same)
		last = now
		if settled && !slices.EqualFunc(now, w.known, stamp.same) {
			w.known = now
			changed()
		}
	}
}

// A stamp is what a file looks like from outside; nil when it is not there.
type stamp struct{ info os.FileInfo }

func (w *Watch) look() []stamp {
	stamps := make([]stamp, len(w.files))
	for i, file := range w.files {
		if info, err := os.Stat(file); err == nil {
			stamps[i].info = info
		}
	}
	return stamps
}

func (s stamp) same(other stamp) bool {
	if s.info == nil || other.info == nil {
		return s.info == nil && other.info == nil
	}
	return os.SameFile(s.info, other.info) && s.info.Size() == other.info.Size() && s.info.ModTime().Equal(other.info.ModTime())
}
