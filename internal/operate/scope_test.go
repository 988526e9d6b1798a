package operate

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle/limits"
)

// root may do everything.
var root = Principal{Name: "root", Role: config.Operator}

// of returns an operator of only these apps; without any, of all apps.
func of(apps ...string) *Operator {
	return New(Options{Log: slog.New(slog.DiscardHandler)}).As(Principal{Role: config.Operator, Apps: apps}, "")
}

// A principal of some apps lists and sets only the levels that it may.
func TestPrincipalSetsOnlyLevelsOfItsApps(t *testing.T) {
	t.Parallel()
	all := Quotas{{Key: "fcm/one", Apps: []string{"shop"}}, {Key: "quota/both", Name: "both", Apps: []string{"mail", "shop"}}, {Key: "fcm/mail", Apps: []string{"mail"}}}
	who, everything := of("shop", "kiosk"), of()
	for _, c := range []struct {
		level      limits.Level
		sees, owns bool
	}{
		{limits.Level{App: "shop"}, true, true},
		{limits.Level{App: "shop", User: "ada", Category: "news"}, true, true},
		{limits.Level{App: "mail"}, false, false},
		{limits.Level{User: "ada"}, false, false},
		{limits.Level{Category: "news"}, false, false},
		{limits.Level{}, false, false},
		{limits.Level{Quota: "fcm/one"}, true, true},
		{limits.Level{Quota: "both"}, true, false},
		{limits.Level{Quota: "fcm/mail"}, false, false},
	} {
		err := who.ownsLevel(c.level, all)
		var others *OthersError
		if sees, owns := who.seesLevel(c.level, all), err == nil; sees != c.sees || owns != c.owns || !owns && !errors.As(err, &others) {
			t.Errorf("%+v: sees it %t, owns it %t", c.level, sees, owns)
		}
		if !everything.seesLevel(c.level, all) || everything.ownsLevel(c.level, all) != nil {
			t.Errorf("%+v: a bearer of all apps does not own it", c.level)
		}
	}
	its := who.quotasOf(all)
	if len(its) != 2 || len(its[1].Apps) != 1 || len(all[1].Apps) != 2 {
		t.Errorf("%+v of %+v", its, all)
	}
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
