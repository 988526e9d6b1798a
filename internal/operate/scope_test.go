package operate

import (
	"context"
	"log/slog"
	"testing"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
)

// root may do everything.
var root = Principal{Name: "root", Role: config.Operator}

// of returns an operator of only these apps; without any, of all apps.
func of(apps ...string) *Operator {
	return New(Options{Log: slog.New(slog.DiscardHandler)}).As(Principal{Role: config.Operator, Apps: apps}, "")
}

// An action is recorded even if its client has disconnected meanwhile.
func TestActionOfGoneClientIsRecorded(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	o := New(Options{Queue: client, Records: store.NewRecords(client, "", 0), Log: slog.New(slog.DiscardHandler)}).As(root, "")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	o.did(gone, Pause, auditlog.Entry{Count: 1})
	if all, err := o.Actions(t.Context(), "", 10); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
