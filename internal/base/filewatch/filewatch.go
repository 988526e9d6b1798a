// Package filewatch detects changes of files. Start with New.
package filewatch

import (
	"context"
	"os"
	"slices"
	"time"
)

// Interval is the default interval between checks. A change is noticed after one to two intervals.
const Interval = 5 * time.Second

// A Watch watches a set of files by name and follows symbolic links, so that it notices a replaced
// file, or a new version of a mounted Kubernetes secret, as well as a rewritten file.
type Watch struct {
	files []string
	known []stamp
}

// New returns a watch that has recorded the files' present state. It ignores empty names. Call New
// before you read the files, so that no change in between is missed.
func New(files ...string) *Watch {
	files = slices.DeleteFunc(files, func(file string) bool { return file == "" })
	w := &Watch{files: files}
	w.known = w.look()
	return w
}

// Run calls the function changed after every change of the files, until ctx ends. It checks once
// an interval, and waits until the files have not changed for one interval, so that changed does
// not read a file that is being written.
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

// A stamp is a file's metadata; info is nil if there is no file.
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
