//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/redistest"
)

// check --redis says which Redis answered, and that the embedded one is not asked.
func TestCheckTellsOfRedis(t *testing.T) {
	t.Parallel()
	dir := write(t, "config.yaml", string(pushpace.ConfigYAML))
	if got := ended(t, setup{dir: dir}, "check", "--redis"); got.status != exitDone || !strings.Contains(got.stderr, "redis embedded: nothing is connected to") ||
		strings.Contains(got.stdout, "version") {
		t.Errorf("%+v", got)
	}
	address := redistest.Shared(t).Addr()
	got := ended(t, setup{dir: dir, env: []string{"PUSHPACE_REDIS__ADDRESS=" + address}}, "check", "--redis", "--json")
	var e effective
	if err := json.Unmarshal([]byte(got.stdout), &e); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	if e.Redis.Version == "" || e.Redis.Version == "unknown" || !strings.Contains(got.stderr, "redis "+address+" answers, version "+e.Redis.Version+".\n") {
		t.Errorf("%+v", got)
	}
}

// check --redis finds what the limits' user may not do before a notification does.
func TestCheckFindsMissingRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dir := write(t, "config.yaml", string(pushpace.ConfigYAML))
	env := []string{"PUSHPACE_REDIS__ADDRESS=" + server.Addr(), "PUSHPACE_REDIS__USERNAME=lim", "PUSHPACE_REDIS__PASSWORD=secret"}
	for _, lacks := range []string{"", "-zadd", "-evalsha", "-multi", "-hset", "-scan"} {
		acl := []any{"ACL", "SETUSER", "lim", "reset", "on", ">secret", "~pushpace:*", "+@all"}
		want := exitDone
		if lacks != "" {
			acl, want = append(acl, lacks), exitFailed
		}
		if err := server.Client(t).Do(t.Context(), acl...).Err(); err != nil {
			t.Fatal(err)
		}
		if got := ended(t, setup{dir: dir, env: env}, "check", "--redis"); got.status != want || (want != exitDone) != strings.Contains(got.stderr, "does not do what the limits need") {
			t.Errorf("without %q: %+v", lacks, got)
		}
	}
	if keys := server.Client(t).Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

// check --redis says of acknowledged writes whether it is replicas that lack, or the right to
// wait for them.
func TestCheckFindsWhyNothingIsAcknowledged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dir := write(t, "config.yaml", string(pushpace.ConfigYAML))
	env := []string{"PUSHPACE_REDIS__ADDRESS=" + server.Addr(), "PUSHPACE_REDIS__USERNAME=lim", "PUSHPACE_REDIS__PASSWORD=secret",
		"PUSHPACE_REDIS__ACKNOWLEDGED=1", "PUSHPACE_REDIS__TIMEOUT=200ms"}
	for lacks, want := range map[string]string{"+wait": "may have the write, and too few replicas have it", "-wait": "refuses WAIT"} {
		if err := server.Client(t).Do(t.Context(), "ACL", "SETUSER", "lim", "reset", "on", ">secret", "~pushpace:*", "+@all", lacks).Err(); err != nil {
			t.Fatal(err)
		}
		if got := ended(t, setup{dir: dir, env: env}, "check", "--redis"); got.status != exitFailed || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "the rights") {
			t.Errorf("with %q: %+v", lacks, got)
		}
	}
}

// What bounds all workers is told among the other keys of each provider.
func TestCheckTellsWhatAllWorkersShare(t *testing.T) {
	t.Parallel()
	shared := effectiveShared{Concurrency: 7}
	e := &effective{Apps: map[string]effectiveApp{"shop": {
		APNs: &effectiveAPNs{effectiveShared: shared}, FCM: &effectiveFCM{effectiveShared: shared}, WebPush: &effectiveWebPush{effectiveShared: shared},
	}}}
	var text strings.Builder
	if err := e.print(&text, false); err != nil {
		t.Fatal(err)
	}
	if got := text.String(); strings.Count(got, "\n      concurrency: 7\n") != 3 || strings.Contains(got, "shared") {
		t.Errorf("%s", got)
	}
}

// A variable that is nearly a key is refused with the right name by every command
// that reads the configuration; one that means nothing is warned of.
func TestMistypedVariables(t *testing.T) {
	t.Parallel()
	dir := write(t, "config.yaml", string(pushpace.ConfigYAML))
	for _, args := range [][]string{{"check", "--redis"}, {"serve"}, {"audit"}} {
		got := ended(t, setup{dir: dir, env: []string{"PUSHPACE_REDIS_ADDRESS=127.0.0.1:9999"}}, args...)
		if got.status != exitUsage || !strings.Contains(got.stderr, "PUSHPACE_REDIS_ADDRESS: is no key for want of underscores: write PUSHPACE_REDIS__ADDRESS") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	env := []string{"PUSHPACE_FOO=hunter2", "PUSHPACE_SERVICE_HOST=10.0.0.1", "PUSHPACE_REQUIRE_REDIS=1"}
	got := ended(t, setup{dir: dir, env: env}, "check", "--json")
	var e effective
	if err := json.Unmarshal([]byte(got.stdout), &e); err != nil || len(e.Warnings) != 1 || !strings.HasPrefix(e.Warnings[0], "PUSHPACE_FOO: names no key") {
		t.Errorf("%v: %+v", err, got)
	}
	p := start(t, setup{dir: dir, env: env}, "serve")
	p.until(t, "serving", func() bool { return strings.Contains(p.stderr.String(), "msg=serving") })
	p.terminate(t)
	<-p.done
	if log := p.stderr.String(); strings.Count(log, "PUSHPACE_FOO") != 1 || strings.Contains(log, "SERVICE_HOST") || strings.Contains(log, "hunter2") {
		t.Errorf("the log:\n%s", log)
	}
}
