//go:build e2e && soak && unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pushpace/pushpace/test/rig"
)

// runTypeScript compiles a program with the types that are generated from the API's document, and
// runs the program.
func runTypeScript(t *testing.T, page []block) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is not on the PATH", program)
		}
	}
	for _, b := range page {
		dir := t.TempDir()
		rig.Must(t, os.CopyFS(dir, os.DirFS(top+"internal/api/testdata/generated/typescript")))
		document, err := os.ReadFile(top + "internal/api/openapi.json")
		rig.Must(t, err)
		for name, text := range map[string]string{"openapi.json": string(document), "send.ts": forProducers(t, b)} {
			rig.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		var out []byte
		for _, command := range [][]string{
			{"npm", "ci", "--no-audit", "--no-fund"},
			{"node_modules/.bin/openapi-typescript", "openapi.json", "--output", "api.d.ts"},
			{"node_modules/.bin/tsc"},
			{"node", "out/send.js"},
		} {
			cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
			cmd.Dir = dir
			if out, err = cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", command, err, out)
			}
		}
		shows(t, string(out), "order-4713 is on the queue", "order-4713 was known", "/targets")
	}
}

// Angular's service worker shows the same payload.
func TestAngularShowsAPush(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rig.Must(t, os.CopyFS(dir, os.DirFS("testdata/angular")))
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--legacy-peer-deps", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	worker, err := os.ReadFile(filepath.Join(dir, "node_modules", "@angular", "service-worker", "ngsw-worker.js"))
	rig.Must(t, err)
	showsAPush(t, map[string]string{
		"/":               `<!doctype html><title>Shop</title><script>navigator.serviceWorker.register('/ngsw-worker.js')</script>`,
		"/ngsw-worker.js": string(worker),
		"/ngsw.json":      `{"configVersion":1,"timestamp":1,"index":"/","assetGroups":[],"dataGroups":[],"hashTable":{},"navigationUrls":[],"navigationRequestStrategy":"performance"}`,
	})
}
