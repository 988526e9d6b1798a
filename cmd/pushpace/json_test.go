//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// Every command takes --json, except commands without an answer and commands whose only
// output is JSON.
func TestEveryCommandPrintsJSON(t *testing.T) {
	t.Parallel()
	none := []string{"", "serve", "simulate", "limits", "dead", "token", "vapid", "completion", "limits export", "simulate subscription"}
	all := commands(t)
	if len(all) < 30 {
		t.Fatalf("--help lists %d commands", len(all))
	}
	for _, path := range all {
		name := strings.Join(path, " ")
		if slices.Contains(none, name) || strings.HasPrefix(name, "completion ") {
			continue
		}
		if !strings.Contains(help(t, path...), "--json") {
			t.Errorf("%s has no --json", name)
		}
	}
}

// What changes something prints with --json what stands now, on Redis and through
// the API alike, in the words of the commands that look.
func TestChangesAsJSON(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.simulate(t)
	workers := s.serve(t)
	_, url := s.guardedAPI(t)
	for name, with := range map[string]setup{"ben": s.setup, "operator": through(url, operatorToken)} {
		says := func(into any, args ...string) {
			t.Helper()
			got := ended(t, with, append(args, "--json")...)
			d := json.NewDecoder(strings.NewReader(got.stdout))
			d.DisallowUnknownFields()
			if err := d.Decode(into); err != nil || d.More() || got.status != exitDone {
				t.Errorf("%v as %s: %+v, %v", args, name, got, err)
			}
		}
		by := func(args ...string) []string { // the API says itself who it is
			if name == "ben" {
				args = append(args, "--by", name)
			}
			return args
		}
		var set struct {
			Override limits.Override
			Warnings []string
		}
		says(&set, by("limits", "set", "--user", "ada", "--rate", "10/1m", "--rate", "1000/1h")...)
		if set.Override.User != "ada" || set.Override.By != name || set.Override.At.IsZero() || len(set.Warnings) != 1 {
			t.Errorf("set as %s: %+v", name, set)
		}
		var unset struct{ User, Category string }
		if says(&unset, by("limits", "unset", "--user", "ada")...); unset.User != "ada" {
			t.Errorf("unset as %s: %+v", name, unset)
		}
		var imported struct {
			Valid, Ended int
			Set          bool
			Warnings     []string
		}
		with.stdin = strings.NewReader(`{"user":"eve","rates":["1/1m"]}` + "\n" + `{"user":"old","rates":["1/1m"],"until":"2020-01-01T00:00:00Z"}`)
		if says(&imported, by("limits", "import", "-")...); imported.Valid != 1 || imported.Ended != 1 || !imported.Set {
			t.Errorf("import as %s: %+v", name, imported)
		}
		with.stdin = nil
		var standing pause.Pause
		says(&standing, by("pause", "--category", "chat", "--reason", "too much")...)
		if standing.Kind != pause.Operator || standing.Category != "chat" || standing.By != name || standing.Reason != "too much" || standing.At.IsZero() {
			t.Errorf("pause as %s: %+v", name, standing)
		}
		id := "held-" + name
		// a worker may not know of the pause yet
		later := fmt.Sprintf(`{"not_before":%q,`, time.Now().Add(time.Hour).Format(time.RFC3339))
		s.send(t, exitDone, strings.Replace(notification(id, "dan", "chat", "apns", "00"), "{", later, 1))
		s.enqueueUnknown(t, "bad-"+name, "cid")
		var status control.Status
		if says(&status, "cancel", id); status.ID != id || status.State != push.Cancelled {
			t.Errorf("cancel as %s: %+v", name, status)
		}
		var over pause.Pause
		if says(&over, by("resume", "--category", "chat")...); !reflect.DeepEqual(over, standing) {
			t.Errorf("resume as %s: %+v, want %+v", name, over, standing)
		}
		var letter struct{ ID, Error string }
		workers.until(t, "a dead letter", func() bool { return ended(t, with, "dead", "show", "bad-"+name).status == exitDone })
		if says(&letter, "dead", "purge", "bad-"+name); letter.ID != "bad-"+name {
			t.Errorf("purge as %s: %+v", name, letter)
		}
		got := ended(t, with, "dead", "requeue", "nobody", "--json")
		if err := json.Unmarshal([]byte(got.stdout), &letter); err != nil || letter.ID != "nobody" || letter.Error == "" || got.status != exitFailed {
			t.Errorf("requeue as %s: %+v, %v", name, got, err)
		}
	}
	s.stop(t, workers)
}
