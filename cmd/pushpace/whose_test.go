package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// What acts on all that match acts on each user's, where they have one ID.
func TestAllOfUsersWithOneID(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	redistest.Divide(t, s.client, "pushpace", "8")
	s.simulate(t)
	records, ben := ledger.NewRecords(s.client, "", 0), "ben"
	for shard.Of(8, "demo", ben) == shard.Of(8, "demo", "ada") {
		ben += "n"
	}
	s.send(t, exitDone, notification("same", "ada", "marketing", "fcm", "ada-pixel")+notification("same", ben, "marketing", "fcm", "ben-pixel"))
	bury := func() {
		t.Helper()
		for _, user := range []string{"ada", ben} {
			at, err := records.Of(t.Context(), "demo", user)
			if err != nil {
				t.Fatal(err)
			}
			job, err := push.Encode(&push.Job{Notification: &push.Notification{ID: "dead", App: "demo", User: user, Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}, AcceptedAt: time.Now()})
			if err == nil {
				err = at.SetAside(t.Context(), &ledger.Letter{ID: "dead", State: ledger.Malformed, Reason: "invalid", At: time.Now(), Queue: push.Default.Queue(), Job: job})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, args := range [][]string{{"cancel", "--all"}, {"dead", "requeue", "--all"}, {"dead", "purge", "--all"}} {
		if args[0] == "dead" {
			bury()
		}
		got := ended(t, s.setup, append(args, "--app", "demo", "--expect", "2", "--json")...)
		if got.status != exitDone || got.stdout != `{"selected":2,"done":2,"gone":0,"under_way":0,"failed":0}`+"\n" {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// Commands name the flags that choose where several users have an ID, and take them, also
// through the API.
func TestFlagsChooseWhoseAnIDIs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	redistest.Divide(t, s.client, "pushpace", "8")
	s.simulate(t)
	ben := "ben"
	for shard.Of(8, "demo", ben) == shard.Of(8, "demo", "ada") {
		ben += "n"
	}
	s.send(t, exitDone, notification("same", "ada", "marketing", "fcm", "ada-pixel")+notification("same", ben, "marketing", "fcm", "ben-pixel"))
	_, url := s.guardedAPI(t)
	for user, where := range map[string]setup{"ada": s.setup, ben: through(url, operatorToken)} {
		for _, args := range [][]string{{"status", "same"}, {"cancel", "same", "--app", "demo"}} {
			got := ended(t, where, args...)
			if got.status != exitFailed || !strings.HasSuffix(got.stderr, ":\n  --app demo --user ada\n  --app demo --user "+ben+"\n") {
				t.Errorf("%v: %+v", args, got)
			}
		}
		if got := ended(t, where, "cancel", "same", "--app", "demo", "--user", user); got.status != exitDone {
			t.Errorf("%+v", got)
		}
		if got := ended(t, where, "status", "same", "--user", user); got.status != exitDone || !strings.Contains(got.stdout, "cancelled") {
			t.Errorf("%+v", got)
		}
		if got := ended(t, where, "cancel", "same", "--category", "marketing"); got.status != exitUsage {
			t.Errorf("%+v", got)
		}
		if got := ended(t, where, "dead", "show", "same", "--user", user); got.status != exitFailed {
			t.Errorf("%+v", got)
		}
	}
}
