package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/internal/app"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A checker is a sender that can check its connection to the provider.
type checker interface {
	Check(ctx context.Context) providers.Reached
}

// A checkedProvider is the result of a checker.
type checkedProvider struct {
	App      string        `json:"app"`
	Platform push.Platform `json:"platform"`
	OK       bool          `json:"ok"`
	Passed   []string      `json:"passed"`
	Failed   string        `json:"failed,omitempty"`
	Error    string        `json:"error,omitempty"`
}

// checkProviders checks the providers of every app that is not simulated.
func checkProviders(ctx context.Context, cfg *config.Config) ([]checkedProvider, error) {
	var c app.Closers
	all, err := app.OpenSenders(ctx, app.RealApps(cfg), "", nil, slog.New(slog.DiscardHandler), &c)
	defer func() { _ = c.Close() }()
	if err != nil {
		return nil, err
	}
	checked := []checkedProvider{}
	for _, app := range slices.Sorted(maps.Keys(all)) {
		for _, platform := range slices.Sorted(maps.Keys(all[app])) {
			sender, ok := all[app][platform].(checker)
			if !ok {
				return nil, fmt.Errorf("%s of %s cannot be checked", platform, app)
			}
			r := sender.Check(ctx)
			one := checkedProvider{App: app, Platform: platform, OK: r.OK(), Passed: append([]string{}, r.Passed...), Failed: r.Failed}
			if r.Err != nil {
				one.Error = r.Err.Error()
			}
			checked = append(checked, one)
		}
	}
	return checked, nil
}

// printProviders writes one line per provider. It returns an error if a check failed.
func printProviders(w io.Writer, checked []checkedProvider, printed bool) error {
	failed := 0
	for _, c := range checked {
		if !c.OK {
			failed++
		}
		if printed {
			continue // the configuration shows it
		}
		line := "ok: " + strings.Join(c.Passed, ", ")
		switch {
		case !c.OK:
			line = fmt.Sprintf("failed at %s: %s", c.Failed, c.Error)
		case len(c.Passed) == 0: // hosts: ["*"]
			line = "not checked: hosts names none to connect to"
		}
		if _, err := fmt.Fprintf(w, "%s %s  %s\n", words.Quoted(c.App), c.Platform, line); err != nil {
			return err
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d providers cannot be used", failed, len(checked))
	case len(checked) == 0:
		fmt.Fprintln(os.Stderr, "No app has a provider to check: a simulated app has none.")
	}
	return nil
}
