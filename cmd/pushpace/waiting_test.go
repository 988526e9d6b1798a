//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/ledger/ledgertest"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

func TestQuotedOnlyWhereNeeded(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"": "-", "-": `'-'`, "order-4711": "order-4711", "shop/ada:1": "shop/ada:1", "jörg": "jörg", "a b": `'a b'`, "a\tb": `"a\tb"`,
		"a\u202eb": `"a\u202eb"`, `a"b`: `'a"b'`, "a;b": `'a;b'`, "a\x7fb": `"a\x7fb"`, "a\xffb": `"a\xffb"`,
		"$(id)": `'$(id)'`, "`id`": "'`id`'", "hi!": `'hi!'`, "it's": `'it'\''s'`, `a\b`: `'a\b'`,
	} {
		if got := words.Quoted(name); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
		if want[0] == '"' || name == "" {
			continue
		}
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+words.Quoted(name)).Output(); err != nil || string(out) != name {
			t.Errorf("a shell reads %s as %q, %v", want, out, err)
		}
	}
}

// Somebody has sent the wrong text to many: what waits is found by what it is,
// and ended when its number is confirmed, and not otherwise.
func TestFindAndCancelMany(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, url := s.guardedAPI(t)
	const each = 130 // more than a request's
	for _, with := range []setup{s.setup, through(url, operatorToken)} {
		input := ""
		for i := range each {
			input += notification(fmt.Sprintf("wrong-%d", i), fmt.Sprintf("user-%d", i%7), "marketing", "apns", "00")
		}
		before, err := ledger.NewRecords(s.client, "", 0).Counts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		input = strings.ReplaceAll(input, "wrong-", fmt.Sprintf("wrong-%d-", before.Accepted))
		s.send(t, exitDone, input+notification(fmt.Sprintf("right-%d", before.Accepted), "user-1", "orders", "apns", "00"))

		listed := ended(t, with, "waiting", "--category", "marketing", "--json")
		for line := range strings.Lines(listed.stdout) {
			var q control.Queued
			if err := json.Unmarshal([]byte(line), &q); err != nil || q.Category != "marketing" || q.For != control.ForWorker {
				t.Errorf("%s: %v", line, err)
			}
		}
		if n := strings.Count(listed.stdout, "\n"); n != each || listed.status != exitDone {
			t.Errorf("%d are listed: %+v", n, listed.stderr)
		}
		table := ended(t, with, "waiting", "--category", "marketing", "--limit", "5")
		if strings.Count(table.stdout, "\n") != 6 || !strings.Contains(table.stderr, "125 more wait of category marketing") {
			t.Errorf("%+v", table)
		}
		if one := ended(t, with, "waiting", "--user", "user-1", "--category", "orders"); strings.Count(one.stdout, "\n") < 2 || strings.Contains(one.stdout, `"`) {
			t.Errorf("%+v", one)
		}
		for _, refused := range []struct {
			want int
			args []string
		}{
			{exitFailed, []string{"--expect", "129"}}, {exitFailed, []string{"--expect", "0"}}, {exitUsage, nil}, {exitUsage, []string{"wrong-1"}},
		} {
			args := append([]string{"cancel", "--all", "--category", "marketing"}, refused.args...)
			if got := ended(t, with, args...); got.status != refused.want || got.stderr == "" {
				t.Errorf("%v: %+v", args, got)
			}
		}
		if counts, err := ledger.NewRecords(s.client, "", 0).Counts(t.Context()); err != nil || counts.Ended[push.Cancelled] != before.Ended[push.Cancelled] {
			t.Errorf("%+v, %v: some are cancelled already", counts, err)
		}
		got := ended(t, with, "cancel", "--all", "--category", "marketing", "--expect", fmt.Sprint(each))
		if got.status != exitDone || got.stderr != "130 cancelled.\n" {
			t.Errorf("%+v", got)
		}
		if left := ended(t, with, "waiting", "--category", "marketing"); left.stdout != "" || left.stderr != "Nothing waits of category marketing.\n" {
			t.Errorf("%+v", left)
		}
		counts, err := ledger.NewRecords(s.client, "", 0).Counts(t.Context())
		if err != nil || counts.Ended[push.Cancelled]-before.Ended[push.Cancelled] != each || counts.Waiting()-before.Waiting() != 1 {
			t.Errorf("%+v, %v", counts, err)
		}
	}
	if got := ended(t, through(url, viewerToken), "cancel", "--all", "--expect", "2"); got.status != exitFailed || !strings.Contains(got.stderr, "2 failed") {
		t.Errorf("a viewer cancels: %+v", got)
	}
	var done operate.Bulk
	if got := ended(t, s.setup, "cancel", "--all", "--expect", "2", "--json"); json.Unmarshal([]byte(got.stdout), &done) != nil || done != (operate.Bulk{Selected: 2, Done: 2}) {
		t.Errorf("%+v", got)
	}
}

// Dead letters go back on the queue by why, for whom and since when they died.
func TestRequeueManyLetters(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, url := s.guardedAPI(t)
	records := ledger.NewRecords(s.client, "", 0)
	bury := func(id, category, reason string) {
		t.Helper()
		n, err := push.Parse([]byte(notification(id, "ada", category, "apns", "00")))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := push.NewProducer(s.client, "", 0).Enqueue(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		queue := "asynq:{" + push.Default.Queue() + "}:"
		job, err := push.Encode(&push.Job{Notification: n, AcceptedAt: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		s.client.LRem(t.Context(), queue+"pending", 0, id)
		s.client.Del(t.Context(), queue+"t:"+id)
		letter := &ledger.Letter{ID: id, State: push.Rejected, Reason: reason, At: time.Now(), Queue: push.Default.Queue(), Job: job}
		if _, err := ledgertest.At(t, records, id).Settle(t.Context(), id, &ledger.End{State: push.Rejected, Letter: letter}); err != nil {
			t.Fatal(err)
		}
	}
	for round, with := range []setup{s.setup, through(url, operatorToken)} {
		for i := range 120 {
			bury(fmt.Sprintf("%d-news-%d", round, i), "marketing", "unknown_app")
		}
		bury(fmt.Sprintf("%d-code", round), "security", "unknown_app")
		bury(fmt.Sprintf("%d-order", round), "orders", "payload")
		for _, nothing := range [][]string{{"--reason", "other"}, {"--app", "other"}, {"--since", "1ns"}, {"--category", "other"}} {
			args := append([]string{"dead", "requeue", "--all", "--expect", "0"}, nothing...)
			if got := ended(t, with, args...); got.status != exitDone || got.stderr != "0 requeued.\n" {
				t.Errorf("%v: %+v", args, got)
			}
		}
		args := []string{"dead", "requeue", "--all", "--reason", "unknown_app", "--category", "marketing", "--app", "demo", "--since", "1h", "--expect"}
		if got := ended(t, with, append(args, "121")...); got.status != exitFailed || !strings.Contains(got.stderr, "and not 121") {
			t.Errorf("%+v", got)
		}
		if got := ended(t, with, append(args, "120")...); got.status != exitDone || got.stderr != "120 requeued.\n" {
			t.Errorf("%+v", got)
		}
		if counts, err := records.Counts(t.Context()); err != nil || counts.Letters != int64(2*(round+1)) || counts.Waiting() != int64(120*(round+1)) {
			t.Errorf("%+v, %v", counts, err)
		}
	}
	if got := ended(t, s.setup, "dead", "purge", "--all", "--category", "orders", "--expect", "2"); got.status != exitDone || got.stderr != "2 purged.\n" {
		t.Errorf("%+v", got)
	}
	if counts, err := records.Counts(t.Context()); err != nil || counts.Letters != 2 {
		t.Errorf("%+v, %v", counts, err)
	}
}
