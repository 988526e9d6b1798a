package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pushpace/pushpace/internal/app"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/push"
)

// A rendering holds each provider's payload for one notification.
type rendering struct {
	Line     int            `json:"line,omitempty"` // of the file
	ID       string         `json:"id"`
	Warnings []string       `json:"warnings,omitempty"`
	Targets  []app.Rendered `json:"targets"`
}

// render prints the payloads, and enqueues nothing.
func (s *sending) render(where *place, stdin io.Reader, out io.Writer) error {
	if where.remote() != "" {
		return misusedf("--dry-run reads the configuration: give --config instead of the HTTP API")
	}
	cfg, _, err := app.LoadConfig(*where.config)
	if err != nil {
		return err
	}
	defer s.warned.print()
	if s.file == "" {
		return s.renderOne(cfg, 0, &s.n, out)
	}
	in, _, err := openInput(s.file, stdin)
	if err != nil {
		return misusedf("--file: %w", err)
	}
	defer in.Close()
	failed := false
	for all := newLines(in); ; {
		text, number, err := all.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return err
		}
		var n *push.Notification
		if err == nil {
			n, err = push.Parse(text)
		}
		if err == nil {
			err = s.renderOne(cfg, number, n, out)
		} else {
			err = refuse(out, number, err)
		}
		if errors.As(err, new(*exitError)) {
			failed = true
		} else if err != nil {
			return err
		}
	}
	if failed {
		return exitSilently(exitFailed)
	}
	return nil
}

// refuse prints the reason why the API would not take a notification.
func refuse(out io.Writer, line int, why error) error {
	if err := printJSON(out, resultOf(line, push.Result{Err: why})); err != nil {
		return err
	}
	return exitSilently(exitFailed)
}

func (s *sending) renderOne(cfg *config.Config, line int, n *push.Notification, out io.Writer) error {
	policies := app.LimitsOf(cfg.Limits)
	if err := operate.Refusal(n, app.AppsOf(cfg), policies); err != nil {
		return refuse(out, line, err)
	}
	now := time.Now()
	accepted, err := push.Accepted(n.InTimeZone(cfg.Limits.TimeZone), now)
	if err != nil {
		return refuse(out, line, err)
	}
	r := rendering{Line: line, ID: accepted.ID, Warnings: operate.Warnings(n, policies)}
	s.warned.add(r.Warnings)
	for _, t := range accepted.Targets {
		rendered, err := app.Render(cfg.Apps[accepted.App], &accepted, t, now)
		if err != nil {
			return err
		}
		r.Targets = append(r.Targets, rendered)
	}
	if s.asJSON {
		return printJSON(out, r)
	}
	return r.print(out)
}

// print writes the rendering for a terminal.
func (r *rendering) print(out io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "notification %s\n", r.ID)
	for _, t := range r.Targets {
		fmt.Fprintf(&b, "\n%s %s\n", t.Platform, cmp.Or(t.FID, t.Token))
		for _, h := range t.Headers {
			fmt.Fprintf(&b, "%s: %s\n", h.Name, h.Value)
		}
		text := t.Payload
		if text == nil {
			text = t.Message
		}
		if err := json.Indent(&b, text, "", "  "); err != nil {
			return err
		}
		b.WriteString("\n")
	}
	if _, err := out.Write(b.Bytes()); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "Nothing was enqueued.")
	return nil
}
