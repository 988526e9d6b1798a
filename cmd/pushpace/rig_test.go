package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
)

// A program is a running pushpace.
type program struct {
	cmd            *exec.Cmd
	stdout, stderr output
	done           chan struct{}
}

// An output may be read while it grows.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// setup is where and how a program runs.
type setup struct {
	dir   string
	env   []string // besides the test's own without PUSHPACE_…
	stdin io.Reader
	// program is another one than was built for all tests.
	program string
}

// start starts the program, which ends with the test at the latest. When it ends
// by itself it leaves nothing in the temporary folder.
func start(t *testing.T, s setup, args ...string) *program {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the program")
	}
	p := &program{cmd: exec.Command(cmp.Or(s.program, binary), args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = s.dir, s.stdin, &p.stdout, &p.stderr
	if s.dir == "" {
		p.cmd.Dir = t.TempDir()
	}
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PUSHPACE_") {
			p.cmd.Env = append(p.cmd.Env, entry)
		}
	}
	temporary := t.TempDir()
	p.cmd.Env = append(append(p.cmd.Env, "TMPDIR="+temporary), s.env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the status is read from ProcessState
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		left, err := os.ReadDir(temporary)
		if err != nil || p.cmd.ProcessState.Exited() && len(left) > 0 {
			t.Errorf("%v leaves %v behind, %v", args, left, err)
		}
	})
	return p
}

// wait waits for the end and answers the exit status.
func (p *program) wait(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("did not end within %s\nstdout: %s\nstderr: %s", within, &p.stdout, &p.stderr)
		return -1
	}
}

func (p *program) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// until waits for the condition.
func (p *program) until(t *testing.T, what string, f func() bool) {
	t.Helper()
	if !eventually.Within(eventually.Patience, f) {
		t.Fatalf("%s: does not come\nstdout: %s\nstderr: %s", what, &p.stdout, &p.stderr)
	}
}

// write writes a file into a folder of the test's own and answers the folder.
func write(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// configure writes the site's configuration: the shipped one with a part of it
// replaced.
func (s *site) configure(t *testing.T, pairs ...string) {
	t.Helper()
	text := string(pushpace.ConfigYAML)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the shipped configuration has no %q", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	// as editors do, which leave no half-written file to be read
	if err := os.WriteFile(filepath.Join(s.dir, "next"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.dir, "next"), filepath.Join(s.dir, "config.yaml")); err != nil {
		t.Fatal(err)
	}
}

func (p *program) hangUp(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// says waits until the program has written a line with all the words n times.
func (p *program) says(t *testing.T, n int, words ...string) {
	t.Helper()
	p.until(t, strings.Join(words, ", "), func() bool { return p.said(words...) >= n })
}

func (p *program) said(words ...string) int {
	n := 0
lines:
	for line := range strings.Lines(p.stderr.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		n++
	}
	return n
}

const shippedLimits = "default: {min_gap: 1s, rates: [10/1m, 100/24h]}"

// limitsStatus is what the program's API answers a token that asks for the limits.
func (p *program) limitsStatus(t *testing.T, token string) int {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(p.stderr.String())
	request, err := http.NewRequest(http.MethodGet, url+"/v1/limits", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// A site is a Redis and a folder with the shipped configuration.
type site struct {
	setup
	client *redis.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	server, db := redistest.Shared(t), redistest.Database(t)
	options := server.Options()
	options.DB = db
	s := &site{client: redis.NewClient(options)}
	t.Cleanup(func() { _ = s.client.Close() })
	s.dir = write(t, "config.yaml", string(pushpace.ConfigYAML))
	s.env = []string{"PUSHPACE_REDIS__ADDRESS=" + server.Addr(), "PUSHPACE_REDIS__DB=" + strconv.Itoa(db)}
	return s
}

// simulate starts the stand-ins and points the site at them.
func (s *site) simulate(t *testing.T, args ...string) *program {
	t.Helper()
	p := start(t, s.setup, append([]string{"simulate", "--ledger", "ledger.ndjson"}, args...)...)
	p.until(t, "the settings", func() bool { return strings.HasSuffix(p.stdout.String(), "\n") })
	s.env = append(s.env, strings.Fields(p.stdout.String())...)
	return p
}

// serve starts the workers.
func (s *site) serve(t *testing.T) *program {
	t.Helper()
	p := start(t, s.setup, "serve")
	p.until(t, "serving", func() bool { return strings.Contains(p.stderr.String(), "serving") })
	return p
}

// send runs send with that input and answers its output by line number.
func (s *site) send(t *testing.T, want int, input string) map[int]result {
	t.Helper()
	with := s.setup
	with.stdin = strings.NewReader(input)
	p := start(t, with, "send", "--file", "-")
	if got := p.wait(t, 20*time.Second); got != want {
		t.Errorf("exit status %d, want %d: %s", got, want, &p.stderr)
	}
	results := map[int]result{}
	for line := range strings.Lines(p.stdout.String()) {
		var r result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		results[r.Line] = r
	}
	return results
}

func (s *site) ledger(t *testing.T) []standin.Entry {
	t.Helper()
	f, err := os.Open(filepath.Join(s.dir, "ledger.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var entries []standin.Entry
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		var e standin.Entry
		if json.Unmarshal(scanner.Bytes(), &e) == nil { // the last may be half written
			entries = append(entries, e)
		}
	}
	return entries
}

func notification(id, user, category, platform, token string) string {
	return fmt.Sprintf(`{"id":%q,"app":"demo","user":%q,"category":%q,"targets":[{"platform":%q,"token":%q}],"title":"t"}`+"\n",
		id, user, category, platform, token)
}

// stop ends the programs and expects that they are content.
func (s *site) stop(t *testing.T, programs ...*program) {
	t.Helper()
	for _, p := range programs {
		p.terminate(t)
		if got := p.wait(t, 20*time.Second); got != exitDone {
			t.Errorf("%s: exit status %d: %s", p.cmd.Args[1], got, &p.stderr)
		}
	}
}

// serveAPI starts serve with these arguments and the API, and answers where that is.
func (s *site) serveAPI(t *testing.T, args ...string) (*program, string) {
	t.Helper()
	with := s.setup
	with.env = append([]string{"PUSHPACE_HTTP__LISTEN=127.0.0.1:0"}, with.env...)
	p := start(t, with, append([]string{"serve"}, args...)...)
	p.until(t, "serving", func() bool { return strings.Contains(p.stderr.String(), "msg=serving") })
	m := regexp.MustCompile(`msg=api url=(\S+)`).FindStringSubmatch(p.stderr.String())
	if m == nil {
		return p, ""
	}
	return p, m[1]
}

// ask makes a request, and returns the status and the body.
func ask(t *testing.T, token, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// run runs the program to its end and answers what it has written.
func (s *site) run(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	p := start(t, s.setup, args...)
	if got := p.wait(t, 20*time.Second); got != want {
		t.Errorf("%s: exit status %d, want %d: %s", strings.Join(args, " "), got, want, &p.stderr)
	}
	return p.stdout.String(), p.stderr.String()
}

func fetch(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
