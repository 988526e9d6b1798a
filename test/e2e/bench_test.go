//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/test/rig"
)

// benched is what bench --json prints.
type benched struct {
	DeliveriesPerS float64            `json:"deliveries_per_s"`
	PerCore        float64            `json:"per_core"`
	Lateness       map[string]float64 `json:"lateness_ms"`
	Violations     *int
	Lost           *int
	Twice          *int
	RSSMB          float64 `json:"rss_mb"`
	Users          int
	Notifications  int
	PutOff         int `json:"put_off"`
	Seconds        float64
	Machine        struct {
		Cores     int
		Go, Redis string
	}
}

// A worker is killed during the bench: no limit is broken, and nothing is lost.
func TestBench(t *testing.T) {
	t.Parallel()
	redistest.Start(t) // skips the test without redis-server
	p := rig.Start(t, rig.Setup{}, "bench", "--users", "500", "--json")
	status := p.Wait(t)
	var b benched
	decode := json.NewDecoder(strings.NewReader(p.Stdout.String()))
	decode.DisallowUnknownFields()
	rig.Must(t, decode.Decode(&b))
	_, hasP50 := b.Lateness["p50"]
	_, hasP99 := b.Lateness["p99"]
	if status != rig.Done || b.Violations == nil || *b.Violations != 0 || b.Lost == nil || *b.Lost != 0 || b.Twice == nil || *b.Twice > 500 {
		t.Errorf("exit status %d: %s%s", status, &p.Stdout, &p.Stderr)
	}
	if b.DeliveriesPerS <= 0 || b.PerCore <= 0 || !hasP50 || !hasP99 || b.RSSMB <= 0 || b.Users != 500 || b.Notifications != 625 ||
		b.PutOff < 62 || b.Seconds <= 0 || b.Machine.Cores < 1 || b.Machine.Go == "" || b.Machine.Redis == "" {
		t.Errorf("%+v", b)
	}
	if said := p.Stderr.String(); strings.Count(said, "the worker is killed, and another one starts") != 1 || strings.Contains(said, "\x1b") {
		t.Errorf("standard error: %q", said)
	}
}

// bench does not touch other programs' data on a Redis, and leaves no data of its own, even if Ctrl-C
// ends it.
func TestInterruptedBenchLeavesOtherData(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	check := bystander(t, server)
	p := rig.Start(t, rig.Setup{}, "bench", "--redis", server.Addr())
	p.Says(t, 1, "delivered")
	rig.Must(t, p.Cmd.Process.Signal(syscall.SIGINT))
	if status := p.Wait(t); status != rig.Failed || !strings.Contains(p.Stderr.String(), "interrupted") || p.Stdout.String() != "" {
		t.Errorf("exit status %d: %s%s", status, &p.Stdout, &p.Stderr)
	}
	check()
}

// If bench cannot start, its error has the remedy.
func TestBenchErrorHasRemedy(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Args("--databases", "1"))
	for name, c := range map[string]struct {
		env    []string
		args   []string
		status int
		says   string
	}{
		"no redis-server": {[]string{"PUSHPACE_REDIS_SERVER=no-such-server"}, nil, rig.Failed, "there is no no-such-server on the PATH: install it, or name an empty Redis by --redis HOST:PORT"},
		"no empty Redis":  {nil, []string{"--redis", server.Addr()}, rig.Failed, "the bench uses only an empty database; name another Redis"},
		"no Redis":        {nil, []string{"--redis", redistest.FreeAddress(t)}, rig.Failed, "cannot be reached: check address, and that the server runs"},
		"no folder":       {[]string{"TMPDIR=/no/such/folder"}, nil, rig.Failed, "/no/such/folder"},
		"too few users":   {nil, []string{"--users", "5"}, rig.Misused, "want at least 100 users"},
		"a Cluster":       {nil, []string{"--redis", "a:1,b:2"}, rig.Misused, "--redis: want one host:port"},
	} {
		got := rig.Run(t, rig.Setup{Env: c.env}, append([]string{"bench"}, c.args...)...)
		if got.Status != c.status || !strings.Contains(got.Stderr, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
