//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/pushpace/pushpace/internal/config"
)

// Every block of docs/operations.md loads as it stands.
func TestOperationsBlocks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	fences := len(regexp.MustCompile("(?m)^```").FindAll(text, -1)) / 2
	marked := regexp.MustCompile("(?s)<!-- test: (\\w+) -->\n```\\w+\n(.*?)```").FindAllSubmatch(text, -1)
	if len(marked) != fences || fences == 0 {
		t.Errorf("%d blocks, of which %d are tested", fences, len(marked))
	}
	for _, m := range marked {
		switch kind, block := string(m[1]), m[2]; kind {
		case "config":
			c, err := config.Parse("config.yaml", append([]byte("redis: {address: embedded}\n"), block...), nil)
			if err != nil || c.Telemetry.Tracing.Endpoint == "" {
				t.Errorf("%v\n%s", err, block)
			}
		case "go":
			file := filepath.Join(write(t, "main.go", string(block)), "main.go")
			if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		default:
			t.Errorf("a block is marked %q", kind)
		}
	}
}
