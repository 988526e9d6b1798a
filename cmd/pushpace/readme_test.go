//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
)

// blocks are the README's code blocks that are marked with the name, as in
// <!-- test: NAME -->.
func blocks(t *testing.T, name string) []string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range regexp.MustCompile("(?s)<!-- test: (\\w+) -->\n```\\w+\n(.*?)```").FindAllSubmatch(readme, -1) {
		if string(m[1]) == name {
			found = append(found, string(m[2]))
		}
	}
	if len(found) == 0 {
		t.Fatalf("the README has no block marked %q", name)
	}
	return found
}

// Every block of the README but the drawing and the two commands, which CI
// runs, is marked for a test.
func TestReadmeBlocksAreTested(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	fences := len(regexp.MustCompile("(?m)^```").FindAll(readme, -1)) / 2
	marked := len(blocks(t, "tour")) + len(blocks(t, "config")) + len(blocks(t, "go")) + len(blocks(t, "picture"))
	if fences != marked+2 {
		t.Errorf("%d blocks, of which %d are tested", fences, marked)
	}
}

func TestReadmeTour(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the program")
	}
	server := redistest.Start(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), pushpace.ConfigYAML, 0o600); err != nil {
		t.Fatal(err)
	}
	script := "set -e\n" + strings.Join(blocks(t, "tour"), "\n")
	script = strings.ReplaceAll(script, "127.0.0.1:6379", server.Addr())
	script = strings.ReplaceAll(script, "127.0.0.1:8080", redistest.FreeAddress(t))
	script = strings.ReplaceAll(script, "127.0.0.1:8081", redistest.FreeAddress(t))
	script = strings.Replace(script, "tour=$(mktemp -d)", "mkdir tour; tour=$PWD/tour", 1)
	if !strings.Contains(script, "rm -r $tour") {
		t.Error("the tour leaves its folder behind")
	}
	script = strings.Replace(script, "rm -r $tour", "", 1)
	script = strings.Replace(script, "go build -o pushpace ./cmd/pushpace", "ln -s '"+binary+"' pushpace", 1)
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	timer := time.AfterFunc(5*time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "tour", "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var orders []standin.Entry
	for line := range strings.Lines(string(lines)) {
		var e standin.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(e.Notification, "order-") {
			orders = append(orders, e)
		}
	}
	if len(orders) != 5 || orders[4].At.Sub(orders[0].At) < 3900*time.Millisecond {
		t.Errorf("the orders arrived as %+v", orders)
	}
	// each in its turn: the point first, while a worker runs
	rest := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"until 20", ", in 23h59m5", "by the limit 1/24h of category marketing",
		"ada in demo: too-much is next, and waits another 23h59m, until", "1/24h [---", "limit 1/24h of marketing",
		"state delivered", `"notification":"order-5"`, "difference 0",
		`{"id":"invoice-1"}`, `{"results":[{"id":"welcome-1","status":200},{"id":"code-1","status":200}]}`, `"id":"invoice-1","state":"`, `"workers":[{"id":"`, `"source":"user"`,
		`"pointer":"/usr"`, `"difference":`, "eve in demo: ", "general gap 5s", "1 worker runs, 1 notification waits", "too-much is cancelled.",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is not shown, or not where it is expected:\n%s", want, &out)
		}
		rest = after
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 { // config.yaml, pushpace and the folder
		t.Errorf("the tour leaves %v behind, %v", left, err)
	}
}

// The README's picture is what the program draws.
func TestReadmePicture(t *testing.T) {
	golden, err := os.ReadFile("../../internal/timeline/testdata/burst.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, picture := range blocks(t, "picture") {
		if !strings.HasPrefix(string(golden), picture) {
			t.Errorf("it is not the beginning of\n%s", golden)
		}
	}
}

func TestReadmeConfiguration(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"config.yaml": "", "redis-password": "text", "AuthKey.p8": "text", "service-account.json": "text"}
	for _, block := range blocks(t, "config") {
		files["config.yaml"] = block
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := config.Load(filepath.Join(dir, "config.yaml"), nil); err != nil {
			t.Error(err)
		}
	}
}

func TestReadmeGo(t *testing.T) {
	for _, block := range blocks(t, "go") {
		file := filepath.Join(write(t, "main.go", block), "main.go")
		if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
