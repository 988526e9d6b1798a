//go:build soak && unix

package soak

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/test/rig"
)

// buildSkewed builds the program with a changed package time, in which Now is wrong by
// CLOCK_SKEW_SECONDS, as on a machine with a wrong clock.
func buildSkewed(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	rig.Must(t, err)
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	rig.Must(t, err)
	const now = "\tsec, nsec, mono := runtimeNow()\n"
	skewed := strings.Replace(string(text), now, now+"\tsec += skewSeconds\n", 1)
	if skewed == string(text) {
		t.Fatalf("%s does not read the clock as expected", original)
	}
	dir := rig.Write(t, "time.go", skewed)
	const variable = `package time

import "syscall"

var skewSeconds = func() (n int64) {
	text, _ := syscall.Getenv("CLOCK_SKEW_SECONDS")
	for _, c := range []byte(text) {
		if c >= '0' {
			n = 10*n + int64(c-'0')
		}
	}
	if text != "" && text[0] == '-' {
		n = -n
	}
	return n
}()
`
	rig.Must(t, os.WriteFile(filepath.Join(dir, "skew.go"), []byte(variable), 0o600))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		original: filepath.Join(dir, "time.go"),
		filepath.Join(filepath.Dir(original), "skew.go"): filepath.Join(dir, "skew.go"),
	}})
	rig.Must(t, err)
	file := filepath.Join(dir, "overlay.json")
	rig.Must(t, os.WriteFile(file, overlay, 0o600))
	out := filepath.Join(dir, "pushpace")
	if text, err := exec.Command("go", "build", "-buildvcs=false", "-overlay", file, "-o", out, "github.com/pushpace/pushpace/cmd/pushpace").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	return out
}
