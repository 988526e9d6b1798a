//go:build soak

package api

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"

	"github.com/pushpace/pushpace/push"
)

// The generator of Go clients. package-lock.json has the generators for TypeScript.
const goGenerator = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"

// A folder is a producer's project, in which its tools run.
type folder string

// project copies testdata/generated/NAME and the document into a new folder.
func project(t *testing.T, name string) folder {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "generated", name))))
	must(t, os.WriteFile(filepath.Join(dir, "openapi.json"), document, 0o600))
	return folder(dir)
}

func (f folder) run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = string(f)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// Generated clients compile, send a localised notification and a Live Activity, and cancel by an
// ID alone and with app and user.
func TestGeneratedClients(t *testing.T) {
	t.Parallel()
	r := newRig(t, demo)
	server := httptest.NewServer(r.api)
	t.Cleanup(server.Close)
	t.Run("TypeScript", func(t *testing.T) {
		for _, program := range []string{"node", "npm"} {
			if _, err := exec.LookPath(program); err != nil {
				t.Fatalf("%s is not on the PATH", program)
			}
		}
		f := project(t, "typescript")
		f.run(t, "npm", "ci", "--no-audit", "--no-fund")
		f.run(t, "node_modules/.bin/openapi-typescript", "openapi.json", "--output", "api.d.ts")
		f.run(t, "node_modules/.bin/tsc")
		f.run(t, "node", "out/send.js", server.URL, producerToken, operatorToken)
		r.holds(t, "localised", `"loc-key":"ARRIVES"`)
		r.holds(t, "activity", `"content-state":{"minutes":12}`)
	})
	t.Run("Go", func(t *testing.T) {
		f := project(t, "go")
		must(t, os.Mkdir(filepath.Join(string(f), "api"), 0o700))
		f.run(t, "go", "run", goGenerator, "-generate", "types,client,skip-prune", "-package", "api", "-o", "api/api.go", "openapi.json")
		f.run(t, "go", "mod", "download")
		f.run(t, "go", "run", ".", server.URL, producerToken, operatorToken)
		r.holds(t, "localised-go", `"loc-key":"ARRIVES"`)
		r.holds(t, "activity-go", `"content-state":{"minutes":12}`)
	})
}

// holds expects that the queue holds the notification, with want in its block for
// APNs.
func (r *rig) holds(t *testing.T, id, want string) {
	t.Helper()
	place, err := storetest.First(t, store.NewRecords(r.client, "", 0)).Find(t.Context(), push.Default.Queue(), id)
	must(t, err)
	job, err := push.Decode(place.Payload)
	if err != nil || !strings.Contains(string(job.Notification.APNs), want) {
		t.Errorf("%s: %v, want %s in %s", id, err, want, job.Notification.APNs)
	}
}
