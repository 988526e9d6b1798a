//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/ledger/ledgertest"
	"github.com/pushpace/pushpace/push"
)

// Dead letters are listed newest first, with whose they are and by which
// platforms they were to go, and counted by reason.
func TestDeadLettersAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	records := ledger.NewRecords(s.client, "", 0)
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	both := []push.Target{{Platform: push.FCM, Token: "a-token"}, {Platform: push.APNs, Token: "00fc"}, {Platform: push.FCM, Token: "another"}}
	var want []string
	for i, id := range []string{"one", "two", "three", "four", "five"} {
		n := &push.Notification{ID: id, App: "demo", User: "ada", Targets: both, Title: "Hello"}
		job, err := push.Encode(&push.Job{Notification: n, AcceptedAt: began})
		if err != nil {
			t.Fatal(err)
		}
		reason := "unknown_app"
		if i%2 == 1 {
			reason = "no_provider"
		}
		err = ledgertest.First(t, records).SetAside(t.Context(), &ledger.Letter{ID: id, State: ledger.Malformed, Reason: reason, Outcomes: push.Unsent(both),
			At: began.Add(time.Duration(i) * time.Minute), Queue: push.Default.Queue(), Job: job})
		if err != nil {
			t.Fatal(err)
		}
		want = slices.Insert(want, 0, id)
	}
	got := ended(t, s.setup, "dead", "list")
	table, counts, ok := strings.Cut(got.stdout, "\n\n")
	lines := strings.Split(table, "\n")
	if got.status != exitDone || !ok || len(lines) != 6 {
		t.Fatalf("%+v", got)
	}
	if heads := strings.Join(strings.Fields(lines[0]), " "); heads != "ID STATE REASON ATTEMPTS AT APP USER PLATFORM" {
		t.Error(heads)
	}
	for i, line := range lines[1:] {
		if fields := strings.Fields(line); fields[0] != want[i] || strings.Join(fields[5:], " ") != "demo ada fcm, apns" {
			t.Errorf("line %d: %s", i, line)
		}
	}
	if told := strings.Join(strings.Fields(counts), " "); told != "REASON LETTERS unknown_app 3 no_provider 2" {
		t.Error(counts)
	}
	few := ended(t, s.setup, "dead", "list", "--limit", "2")
	if table, counts, _ := strings.Cut(few.stdout, "\n\n"); strings.Count(table, "\n") != 2 || !strings.Contains(table, "\nfive ") ||
		!strings.Contains(table, "\nfour ") || !strings.Contains(counts, "unknown_app  3") || !strings.Contains(few.stderr, "3 more are kept") {
		t.Errorf("%+v", few)
	}
	if got := ended(t, s.setup, "dead", "list", "--limit", "0"); got.status != exitUsage {
		t.Errorf("%+v", got)
	}
	listed := func(args ...string) (ids []string) {
		for line := range strings.Lines(ended(t, s.setup, append([]string{"dead", "list", "--json"}, args...)...).stdout) {
			var l ledger.Letter
			if err := json.Unmarshal([]byte(line), &l); err != nil || l.User != "ada" || l.Job != nil {
				t.Errorf("%s: %v", line, err)
			}
			ids = append(ids, l.ID)
		}
		return ids
	}
	if ids := listed("--limit", "3"); !slices.Equal(ids, want[:3]) {
		t.Errorf("%q", ids)
	}
	if ids := listed("--reason", "no_provider", "--app", "demo", "--limit", "5"); !slices.Equal(ids, []string{"four", "two"}) {
		t.Errorf("%q", ids)
	}
	if ids := listed("--since", "1ns"); len(ids) != 0 {
		t.Errorf("%q", ids)
	}
	slices.Sort(want)
	if ids := listed(); !slices.Equal(slices.Sorted(slices.Values(ids)), want) {
		t.Errorf("%q", ids)
	}
	for _, c := range []struct{ said, args string }{
		{"No dead letter matches.\n", "list --category chat"},
		{"pushpace: 2 dead letters match: say --expect 2 to purge them; nothing is done\n", "purge --all --reason no_provider"},
		{"1 purged.\n", "purge two"},
		{"pushpace: 1 dead letter matches: say --expect 1 to requeue it; nothing is done\n", "requeue --all --reason no_provider"},
		{"3 purged.\n", "purge --all --reason unknown_app --expect 3"},
		{"1 purged.\n", "purge --all --expect 1"},
		{"No dead letter is kept.\n", "list"},
	} {
		if got := ended(t, s.setup, append([]string{"dead"}, strings.Fields(c.args)...)...); got.stderr != c.said || got.stdout != "" {
			t.Errorf("dead %s: %+v, want %s", c.args, got, c.said)
		}
	}
}

// A dead letter is shown with its notification, and with the job where that is asked for.
func TestADeadLetterIsShown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job, err := push.Encode(&push.Job{AcceptedAt: time.Now(), Notification: &push.Notification{
		ID: "one", App: "demo", User: "ada", Targets: []push.Target{{Platform: push.APNs, Token: "00"}}, Title: "Hello",
	}})
	if err != nil {
		t.Fatal(err)
	}
	for id, job := range map[string][]byte{"one": job, "odd": []byte("{")} {
		if err := ledgertest.First(t, ledger.NewRecords(s.client, "", 0)).SetAside(t.Context(), &ledger.Letter{ID: id, State: ledger.Malformed, At: time.Now(), Job: job}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args              []string
		job, notification bool
	}{{[]string{"one"}, false, true}, {[]string{"one", "--raw"}, true, true}, {[]string{"odd"}, true, false}} {
		got := ended(t, s.setup, append([]string{"dead", "show"}, c.args...)...)
		if got.status != exitDone || strings.Contains(got.stdout, `"job":`) != c.job || strings.Contains(got.stdout, `"title":"Hello"`) != c.notification {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
}

// Targets stay in the order in which they are typed, up to the status.
func TestTargetsStayInTheOrderTyped(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if got := ended(t, s.setup, "send", "--id", "one", "--app", "demo", "--user", "ada", "--title", "Hello",
		"--fcm", "a-token-that-ends-in-first1", "--apns", "00fc", "--fcm", "a-token-that-ends-in-third3"); got.status != exitDone {
		t.Fatalf("%+v", got)
	}
	got := ended(t, s.setup, "status", "one", "--json")
	var status struct{ Outcomes []ledger.TargetOutcome }
	if err := json.NewDecoder(bytes.NewReader([]byte(got.stdout))).Decode(&status); err != nil {
		t.Fatal(err)
	}
	want := []ledger.TargetOutcome{{Platform: push.FCM, TokenEnd: "first1"}, {Platform: push.APNs}, {Platform: push.FCM, TokenEnd: "third3"}}
	if !slices.Equal(status.Outcomes, want) {
		t.Errorf("%s", got.stdout)
	}
}
