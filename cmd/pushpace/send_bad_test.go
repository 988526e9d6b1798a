package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/queue"
)

func TestSendBadLines(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	results := s.send(t, exitFailed, notification("good-1", "ada", "chat", "apns", "00")+
		"not JSON\n"+
		"\n"+
		`{"app":"demo","user":"","targets":[]}`+"\n"+
		strings.Repeat("x", 2*push.MaxEncodedSize)+"\n"+
		notification("bad-2", "ada", "chat", "pigeon", "00")+
		`{"app":"demo","usr":"ada"}`+"\n"+
		notification("good-2", "ada", "chat", "apns", "00"))
	if got, want := slices.Sorted(maps.Keys(results)), []int{1, 2, 4, 5, 6, 7, 8}; !slices.Equal(got, want) {
		t.Fatalf("lines %v, want %v", got, want)
	}
	for _, good := range []int{1, 8} {
		if r := results[good]; r.Error != "" || r.Known == nil || *r.Known {
			t.Errorf("line %d: %+v", good, r)
		}
	}
	for number, field := range map[int]string{2: "", 4: "/user", 5: "", 6: "/targets/0/platform", 7: "/usr"} {
		r := results[number]
		if r.Error == "" || r.Known != nil || !slices.ContainsFunc(r.Faults, func(f push.Fault) bool { return f.Field == field }) {
			t.Errorf("line %d: %+v, want a fault of %q", number, r, field)
		}
	}
	counts, err := ledger.NewRecords(s.client, "", 0).Counts(t.Context())
	if err != nil || counts.Accepted != 2 {
		t.Errorf("%+v, %v", counts, err)
	}
}

func TestSendFromFlags(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	args := []string{"send", "--id", "one", "--app", "demo", "--user", "ada", "--apns", "00", "--apns", "01", "--fcm", "ada-pixel",
		"--priority", "critical", "--badge", "0", "--data", "a=b=c", "--ttl", "1h"}
	p := start(t, s.setup, args...)
	if got := p.wait(t, 10*time.Second); got != exitDone || p.stdout.String() != `{"id":"one","known":false}`+"\n" {
		t.Fatalf("exit status %d: %s%s", got, &p.stdout, &p.stderr)
	}
	place, err := queue.NewInspector(s.client, shard.Named(s.client, "", 1)[0]).Find(t.Context(), push.Critical.Queue(), "one")
	if err != nil {
		t.Fatal(err)
	}
	job, err := push.Decode(place.Payload)
	if err != nil {
		t.Fatal(err)
	}
	n := job.Notification
	if len(n.Targets) != 3 || n.Badge == nil || *n.Badge != 0 || n.Data["a"] != "b=c" || time.Until(n.ExpiresAt) < 59*time.Minute {
		t.Errorf("%+v", n)
	}
	p = start(t, s.setup, "send", "--id", "two", "--app", "demo", "--user", "ada", "--title", "t", "--apns", "00", "--not-before-local", "2099-11-26T09:00", "--time-zone", "Asia/Tokyo")
	if got := p.wait(t, 10*time.Second); got != exitDone {
		t.Fatalf("exit status %d: %s%s", got, &p.stdout, &p.stderr)
	}
	p = start(t, s.setup, "status", "two", "--json")
	if got := p.wait(t, 10*time.Second); got != exitDone || !strings.Contains(p.stdout.String(), `"not_before":"2099-11-26T00:00:00Z"`) {
		t.Errorf("exit status %d: %s%s", got, &p.stdout, &p.stderr)
	}
	p = start(t, s.setup, "send", "--app", "demo")
	if got := p.wait(t, 10*time.Second); got != exitFailed || !strings.Contains(p.stdout.String(), `"field":"/user"`) {
		t.Errorf("exit status %d: %s%s", got, &p.stdout, &p.stderr)
	}
}

// The printed settings make the shipped configuration send to the stand-ins.
func TestVariables(t *testing.T) {
	t.Parallel()
	s, err := startStandIns(t.TempDir(), func(*platform) standInOptions { return standInOptions{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	for _, app := range []string{"demo", "another_app2"} {
		cfg, err := config.Parse("config.yaml", pushpace.ConfigYAML, strings.Fields(variables(app, s.app)))
		if err != nil {
			t.Fatal(err)
		}
		got := cfg.Apps[app]
		if got.Simulated || got.APNs == nil || *got.APNs != *s.app.APNs || got.FCM == nil || *got.FCM != *s.app.FCM {
			t.Errorf("%s: %+v", app, got)
		}
	}
}

// A line whose ID is another notification's is refused, and stops none of the others.
func TestAUsedIDStopsNoOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.send(t, exitDone, notification("used", "ada", "orders", "fcm", "t"))
	got := s.send(t, exitFailed, notification("used", "ben", "orders", "fcm", "t")+notification("other", "ben", "orders", "fcm", "t"))
	if got[1].Known != nil || !strings.Contains(got[1].Error, "the ID is another notification's") || got[2].ID != "other" || got[2].Known == nil {
		t.Errorf("%+v", got)
	}
	if counts, err := ledger.NewRecords(s.client, "", 0).Counts(t.Context()); err != nil || counts.Accepted != 2 {
		t.Errorf("%+v, %v", counts, err)
	}
}

func TestServeOnlyWronglyUsed(t *testing.T) {
	t.Parallel()
	dir := write(t, "config.yaml", string(pushpace.ConfigYAML))
	for _, c := range []struct {
		env  []string
		args []string
		want string
	}{
		{nil, []string{"--only", "console"}, "--only: want worker or api"},
		{nil, []string{"--only", "api"}, "config.yaml: http.listen: "},
		{[]string{"PUSHPACE_HTTP__LISTEN=0.0.0.0:0"}, nil, "PUSHPACE_HTTP__LISTEN: http.listen: is not the loopback"},
	} {
		p := start(t, setup{dir: dir, env: c.env}, append([]string{"serve"}, c.args...)...)
		if got := p.wait(t, 10*time.Second); got != exitUsage || !strings.Contains(p.stderr.String(), c.want) {
			t.Errorf("%v: exit status %d, %q; want %q", c.args, got, p.stderr.String(), c.want)
		}
	}
}
