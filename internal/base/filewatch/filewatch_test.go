package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const interval = time.Second

// watched runs a watch in virtual time. The returned function waits for that many intervals, and
// returns the number of reported changes.
func watched(t *testing.T, files ...string) func(looks int) int {
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	var told atomic.Int64
	go New(files...).Run(ctx, interval, func() { told.Add(1) })
	synctest.Wait()
	return func(looks int) int {
		before := told.Load()
		time.Sleep(time.Duration(looks) * interval)
		synctest.Wait()
		return int(told.Load() - before)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(text), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFileChangeIsReported(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, dir, file string){
		"rewritten": func(t *testing.T, _, file string) { write(t, file, "longer than before") },
		"rewritten, same size": func(t *testing.T, _, file string) {
			write(t, file, "two")
			must(t, os.Chtimes(file, time.Time{}, time.Unix(1, 0)))
		},
		"replaced, same size and time": func(t *testing.T, dir, file string) {
			info, err := os.Stat(file)
			must(t, err)
			other := filepath.Join(dir, "other")
			write(t, other, "two")
			must(t, os.Chtimes(other, time.Time{}, info.ModTime()))
			must(t, os.Rename(other, file))
		},
		"removed": func(t *testing.T, _, file string) { must(t, os.Remove(file)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			write(t, file, "one")
			synctest.Test(t, func(t *testing.T) {
				pass := watched(t, file, "")
				if n := pass(3); n != 0 {
					t.Errorf("%d changes of an untouched file", n)
				}
				change(t, dir, file)
				if n := pass(1); n != 0 {
					t.Errorf("%d changes told before the file has settled", n)
				}
				if n := pass(3); n != 1 {
					t.Errorf("%d changes told, want 1", n)
				}
			})
		})
	}
}

// A mounted Kubernetes secret is a link to a link; an update replaces the second link.
func TestReplacedLinkIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	for _, version := range []string{"v1", "v2"} {
		must(t, os.Mkdir(in(version), 0o700))
		write(t, in(version, "key"), version)
	}
	must(t, os.Symlink("v1", in("..data")))
	must(t, os.Symlink(filepath.Join("..data", "key"), in("key")))
	synctest.Test(t, func(t *testing.T) {
		pass := watched(t, in("key"))
		must(t, os.Symlink("v2", in("next")))
		must(t, os.Rename(in("next"), in("..data")))
		if n := pass(2); n != 1 {
			t.Errorf("%d changes told, want 1", n)
		}
	})
}

func TestChangesOfTwoFilesAreReportedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	write(t, cert, "1")
	synctest.Test(t, func(t *testing.T) {
		pass := watched(t, cert, key)
		write(t, cert, "22")
		pass(1)
		write(t, key, "22") // creates the file
		if n := pass(1); n != 0 {
			t.Errorf("%d changes told between the two", n)
		}
		if n := pass(1); n != 1 {
			t.Errorf("%d changes told, want 1", n)
		}
	})
}
