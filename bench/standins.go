package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
)

// standInCommand is the argument that starts this program as the process of the stand-ins.
const standInCommand = "stand-ins"

// ledgerFile holds the entries of the watched notifications.
const ledgerFile = "ledger.jsonl"

// An introduction is the stand-ins' first message: their addresses and credentials.
type introduction struct {
	APNs    apns.Config
	FCM     fcm.Config
	WebPush webpush.Config
}

// A usage is the stand-ins' CPU time, and the number of pushes that they have received.
type usage struct {
	CPU    time.Duration
	Pushes int64
}

// serveStandIns is the process of the stand-ins. It answers each line of its input with the usage,
// and ends with its input.
func serveStandIns(args []string) error {
	flags := flag.NewFlagSet(standInCommand, flag.ContinueOnError)
	latency := flags.Duration("latency", 0, "of every answer")
	watched := flags.String("watched", "", "prefix of the IDs of notifications whose arrival is written to ledger.jsonl")
	dir := flags.String("dir", "", "for the credentials")
	if err := flags.Parse(args); err != nil {
		return err
	}
	lines, err := os.Create(filepath.Join(*dir, ledgerFile))
	if err != nil {
		return err
	}
	defer lines.Close()
	write := standin.Lines(lines)
	ledger := standin.NewLedger(func(e standin.Entry) error {
		if *watched == "" || !strings.HasPrefix(e.Notification, *watched) {
			return nil
		}
		return write(e)
	})
	typical := standin.Latency{Typical: *latency}
	a, err := apnstest.NewServer(apnstest.Options{Latency: typical, Ledger: ledger})
	if err != nil {
		return err
	}
	defer a.Close()
	f, err := fcmtest.NewServer(fcmtest.Options{Latency: typical, Ledger: ledger})
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := webpushtest.NewServer(webpushtest.Options{Latency: typical, Ledger: ledger})
	if err != nil {
		return err
	}
	defer w.Close()
	var hello introduction
	if hello.APNs, err = a.WriteCredentials(*dir); err != nil {
		return err
	}
	if hello.FCM, err = f.WriteCredentials(*dir); err != nil {
		return err
	}
	if hello.WebPush, err = w.WriteCredentials(*dir); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(hello); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			return err
		}
		cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano())
		if err := out.Encode(usage{cpu, a.Count().Received + f.Count().Received + w.Count().Received}); err != nil {
			return err
		}
	}
	return nil
}

// standIns are the stand-ins, which run in a second process.
type standIns struct {
	introduction
	process *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
	dir     string
}

// startStandIns starts stand-ins. They record when a notification arrives if its ID begins with
// watched; with an empty watched they record nothing.
func startStandIns(ctx context.Context, latency time.Duration, watched string) (*standIns, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pushpace-bench-")
	if err != nil {
		return nil, err
	}
	s := &standIns{dir: dir, process: exec.CommandContext(ctx, self, standInCommand, "-latency", latency.String(), "-dir", dir, "-watched", watched)}
	s.process.Stderr = os.Stderr
	if s.in, err = s.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = json.NewDecoder(out)
	if err := s.process.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.out.Decode(&s.introduction); err != nil {
		return nil, errors.Join(fmt.Errorf("the stand-ins do not start: %w", err), s.close())
	}
	return s, nil
}

func (s *standIns) usage() (u usage, err error) {
	if _, err = io.WriteString(s.in, "\n"); err == nil {
		err = s.out.Decode(&u)
	}
	return u, err
}

// ledger returns, by ID, when each watched notification was first received.
func (s *standIns) ledger() (map[string]time.Time, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, ledgerFile))
	if err != nil {
		return nil, err
	}
	taken := map[string]time.Time{}
	for lines := json.NewDecoder(bytes.NewReader(text)); ; {
		var e standin.Entry
		switch err := lines.Decode(&e); {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF): // a line may be half written
			return taken, nil
		case err != nil:
			return nil, err
		}
		if _, again := taken[e.Notification]; !again {
			taken[e.Notification] = e.At
		}
	}
}

func (s *standIns) close() error {
	_ = s.in.Close()
	err := s.process.Wait()
	return errors.Join(err, os.RemoveAll(s.dir))
}
