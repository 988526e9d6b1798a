//go:build e2e && unix

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pushpace/pushpace/test/rig"
)

// runGo runs go vet on Go programs.
func runGo(t *testing.T, page []block) {
	for _, b := range page {
		file := filepath.Join(rig.Write(t, "main.go", b.text), "main.go")
		if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
			t.Errorf("%s:%d: %v\n%s", b.page, b.line, err, out)
		}
	}
}

// runLines runs go vet on Go lines, inside a function that declares the names in them.
func runLines(t *testing.T, page []block) {
	const around = `package main
import (
	"context"
	"time"
	"github.com/redis/go-redis/v9"
	"github.com/pushpace/pushpace/throttle"
)
func main() { _ = use }
func use(ctx context.Context, client *redis.Client, scopes []throttle.Scope, send func()) error {
%s	return err
}`
	for i := range page {
		page[i].text = fmt.Sprintf(around, page[i].text)
	}
	runGo(t, page)
}
