package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/pushpace/pushpace/internal/cli/progress"
	"github.com/pushpace/pushpace/push"
)

// A result is the printed result of one notification.
type result struct {
	Line     int         `json:"line,omitempty"` // of the file
	ID       string      `json:"id,omitempty"`
	Known    *bool       `json:"known,omitempty"`    // absent when it failed
	Warnings []string    `json:"warnings,omitempty"` // about an accepted notification
	Error    string      `json:"error,omitempty"`
	Faults   push.Faults `json:"faults,omitempty"`
}

func resultOf(line int, r push.Result, warnings ...string) result {
	if r.Err == nil {
		return result{Line: line, ID: r.ID, Known: &r.Known, Warnings: warnings}
	}
	failed := result{Line: line, ID: r.ID, Error: r.Err.Error()}
	errors.As(r.Err, &failed.Faults)
	return failed
}

// receipts print the results of many notifications: as JSON lines, or on a terminal as a progress
// bar and the failures.
type receipts struct {
	mu                      sync.Mutex
	out                     *json.Encoder
	err                     error
	bar                     *progressbar.ProgressBar // nil without a terminal
	quiet                   bool                     // the terminal has the bar, and no lines
	accepted, known, failed int
	warned                  warned
	described               time.Time
}

func newReceipts(out io.Writer, asJSON bool, size int64) *receipts {
	r := &receipts{out: json.NewEncoder(out)}
	if !progress.OnTerminal(os.Stderr) || asJSON && progress.OnTerminal(os.Stdout) {
		return r
	}
	r.quiet = progress.OnTerminal(os.Stdout)
	r.bar = progress.New(os.Stderr, size, progressbar.OptionShowBytes(true))
	return r
}

func (r *receipts) add(one result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warned.add(one.Warnings)
	switch {
	case one.Known == nil:
		r.failed++
	case *one.Known:
		r.known++
	default:
		r.accepted++
	}
	if r.bar != nil && time.Since(r.described) > 100*time.Millisecond {
		r.described = time.Now()
		r.bar.Describe(r.counts())
	}
	if !r.quiet {
		if err := r.out.Encode(one); err != nil && r.err == nil {
			r.err = err
		}
	} else if one.Known == nil {
		_ = r.bar.Clear()
		fmt.Fprintf(os.Stderr, "line %d: %s\n", one.Line, one.Error)
	}
}

// progress reports how many bytes of the input were read.
func (r *receipts) progress(read int64) {
	if r.bar != nil {
		_ = r.bar.Set64(read)
	}
}

// finish prints the counts and warnings on a terminal, and returns the first error of printing.
func (r *receipts) finish() error {
	if r.bar != nil {
		_ = r.bar.Finish()
	}
	r.warned.print()
	fmt.Fprintln(os.Stderr, r.counts())
	return r.err
}

func (r *receipts) counts() string {
	return fmt.Sprintf("accepted %d, known %d, failed %d", r.accepted, r.known, r.failed)
}
