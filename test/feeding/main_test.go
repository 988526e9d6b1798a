// Package feeding runs the recipes of docs/feeding.md. It is a module of its own to keep Redpanda
// Connect and a Postgres driver out of the module graph of pushpace's users.
package feeding

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

const page = "../../docs/feeding.md"

// site returns a folder with the shipped configuration, and a Redis of its own.
func site(t *testing.T) (*rig.Site, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t, redistest.AppendOnly())
	return rig.SiteOn(t, server), server
}

// notification is a valid one of a user in JSON.
func notification(id, user string) string {
	return fmt.Sprintf(`{"id":%q,"app":"demo","user":%q,"title":"t","targets":[{"platform":"fcm","token":"t"}]}`, id, user)
}

// accepted checks that pushpace has accepted exactly these notifications, each once, and a user's
// in this order. Each is an ID and its user. No worker may run.
func accepted(t *testing.T, s *rig.Site, want [][2]string) {
	t.Helper()
	stdout, _ := s.Run(t, rig.Done, "audit", "--json")
	var audit struct{ Accepted int }
	rig.Must(t, json.Unmarshal([]byte(stdout), &audit))
	if audit.Accepted != len(want) {
		t.Errorf("%d notifications are accepted, want %d", audit.Accepted, len(want))
	}
	rig.Must(t, store.NewRecords(s.Client, "", 0).Relist(t.Context())) // as a worker does for asynq's tools
	inspector := asynq.NewInspectorFromRedisClient(s.Client)
	queues, err := inspector.Queues()
	rig.Must(t, err)
	var jobs []*push.Job
	for _, queue := range queues {
		tasks, err := inspector.ListPendingTasks(queue, asynq.PageSize(10_000))
		rig.Must(t, err)
		for _, task := range tasks {
			job, err := push.Decode(task.Payload)
			rig.Must(t, err)
			jobs = append(jobs, job)
		}
	}
	slices.SortFunc(jobs, func(a, b *push.Job) int { return a.AcceptedAt.Compare(b.AcceptedAt) })
	order := map[string][]string{}
	for _, job := range jobs {
		n := job.Notification
		order[n.User] = append(order[n.User], n.ID)
	}
	wanted := map[string][]string{}
	for _, w := range want {
		wanted[w[1]] = append(wanted[w[1]], w[0])
	}
	for user, ids := range wanted {
		if !slices.Equal(order[user], ids) {
			t.Errorf("of %s are accepted %v, want %v", user, order[user], ids)
		}
	}
	if len(order) != len(wanted) {
		t.Errorf("notifications of %d users are accepted, want %d", len(order), len(wanted))
	}
}

// The page shows the files that the tests run.
func TestFeedingPageShowsTestedFiles(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	rig.Must(t, err)
	for _, file := range []string{"outbox/table.sql", "outbox/main.go"} {
		want, err := os.ReadFile(file)
		rig.Must(t, err)
		language := strings.TrimPrefix(filepath.Ext(file), ".")
		if !strings.Contains(string(text), "```"+language+"\n"+string(want)+"```\n") {
			t.Errorf("%s does not show %s as it is", page, file)
		}
	}
}

// build builds a program of this module.
func build(t *testing.T, folder string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), folder)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./"+folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// block returns the page's first block after the text.
func block(t *testing.T, after string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	rig.Must(t, err)
	_, rest, found := strings.Cut(string(text), after)
	_, rest, opened := strings.Cut(rest, "```")
	_, rest, _ = strings.Cut(rest, "\n")
	code, _, closed := strings.Cut(rest, "```\n")
	if !found || !opened || !closed {
		t.Fatalf("%s has no block after %q", page, after)
	}
	return code
}
