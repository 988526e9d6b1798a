//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/config"
)

// What the commands of docs/limiters.md draw and print is what the page shows.
func TestLimitersBlocks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/limiters.md")
	if err != nil {
		t.Fatal(err)
	}
	block := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)<!-- test: (\\w+) -->\n```\\w+\n(.*?)```").FindAllSubmatch(text, -1) {
		block[string(m[1])] = string(m[2])
	}
	if fences := len(regexp.MustCompile("(?m)^```").FindAll(text, -1)) / 2; fences != 3 || len(block) != 3 {
		t.Errorf("%d blocks, of which %d are tested", fences, len(block))
	}
	dir := write(t, "ledger.jsonl", `{"at":"2026-11-20T20:00:00.000001Z","platform":"fcm","app":"p","token":"t","payload_bytes":1}`)
	run := func(name string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-ec", strings.ReplaceAll(block[name], "pushpace ", "'"+binary+"' "))
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	if out := run("picture"); !strings.HasSuffix(out, block["worst"]) {
		t.Errorf("it prints\n%s", out)
	}
	if out := run("ledger"); !strings.Contains(out, "tighter") || !strings.Contains(out, `{"arrivals":1,"contestants":{"quota":{"admitted":1,`) {
		t.Errorf("it prints\n%s", out)
	}
	drawn, err := os.ReadFile(filepath.Join(dir, "limiters.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := os.ReadFile("../../docs/limiters.svg"); err != nil || !bytes.Equal(shown, drawn) {
		t.Errorf("docs/limiters.svg is another picture: %v", err)
	}
}

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
			if err != nil || c.Telemetry.Tracing.Endpoint == "" && c.HTTP.Console.Origin == "" {
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
