//go:build e2e && unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
)

// top is the repository's folder.
const top = "../../"

// A block is a fenced block of a page. The line <!-- test: NAME --> before it is its mark.
type block struct {
	page string // path from top
	line int
	name string // "" without a mark
	text string
}

// pages returns the texts of README.md and the pages of docs/, by path from top. If others is true, it
// adds the other pages in top.
func pages(t *testing.T, others bool) map[string]string {
	t.Helper()
	text := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		files, err := filepath.Glob(top + pattern)
		rig.Must(t, err)
		for _, file := range files {
			name := strings.TrimPrefix(file, top)
			if pattern == "*.md" && name != "README.md" && !others {
				continue
			}
			all, err := os.ReadFile(file)
			rig.Must(t, err)
			text[name] = string(all)
		}
	}
	return text
}

var (
	mark  = regexp.MustCompile(`^<!-- test: ([\w-]+) -->$`)
	fence = regexp.MustCompile("^\\s*```")
)

// blocksOf returns the fenced blocks of a page in their order.
func blocksOf(page, text string) []block {
	var all []block
	before, inside := "", false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case fence.MatchString(line) && inside:
			inside = false
		case fence.MatchString(line):
			b := block{page: page, line: i + 1}
			if m := mark.FindStringSubmatch(before); m != nil {
				b.name = m[1]
			}
			all, inside = append(all, b), true
		case inside:
			all[len(all)-1].text += line + "\n"
		}
		before = line
	}
	return all
}

// runners run the blocks with a mark's NAME, page by page.
var runners = map[string]func(t *testing.T, page []block){
	"ci":         runCI,
	"tour":       runTour,
	"script":     runScript,
	"shown":      func(*testing.T, []block) {}, // runScript compares these with the script's output
	"config":     runConfig,
	"go":         runGo,
	"lines":      runLines,
	"python":     runPython,
	"typescript": runTypeScript,
	"signature":  runSignature,
	"reports":    runReports,
	"browser":    runBrowser,
	"timeline":   runTimeline,
	"states":     heldBy("architecture_test.go", "TestStatePictureMatchesCode"),
	"packages":   heldBy("architecture_test.go", "TestPackagePictureMatchesImports"),
	"gates":      heldBy("architecture_test.go", "TestGatePictureMatchesList"),
	"feeding":    heldBy("test/feeding/main_test.go", "TestFeedingPageShowsTestedFiles"),
	"install":    heldBy("test/deploy/release_test.go", "TestReleaseHasOneVersion"),
}

// Every block of README.md and docs/ has a mark, and passes its test.
func TestDocs(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for page, text := range pages(t, false) {
		named := map[string][]block{}
		for _, b := range blocksOf(page, text) {
			if runners[b.name] == nil {
				t.Errorf("%s:%d: nothing runs a block that is marked %q", page, b.line, b.name)
			}
			named[b.name] = append(named[b.name], b)
		}
		for name, blocks := range named {
			used[name] = true
			if run := runners[name]; run != nil {
				t.Run(page+"/"+name, func(t *testing.T) {
					t.Parallel()
					run(t, blocks)
				})
			}
		}
	}
	for name := range runners {
		if !used[name] {
			t.Errorf("no block is marked %q", name)
		}
	}
}

// heldBy returns a runner for blocks that a test in the package at top checks.
func heldBy(file, test string) func(*testing.T, []block) {
	return func(t *testing.T, _ []block) {
		text, err := os.ReadFile(top + file)
		if err != nil || !strings.Contains(string(text), "\nfunc "+test+"(") {
			t.Errorf("%s has no %s, %v", file, test, err)
		}
	}
}

// runCI finds the commands in .ci/run.
func runCI(t *testing.T, page []block) {
	ci, err := os.ReadFile(top + ".ci/run")
	rig.Must(t, err)
	for _, b := range page {
		for line := range strings.Lines(b.text) {
			if !strings.Contains(string(ci), strings.TrimSpace(line)) {
				t.Errorf("%s:%d: .ci/run does not run %s", b.page, b.line, line)
			}
		}
	}
}

// script runs blocks as one bash script, in a folder with the shipped configuration and on a new
// Redis. It returns the folder and the output.
func script(t *testing.T, page []block) (dir, output string) {
	t.Helper()
	text := "set -e\n"
	for _, b := range page {
		text += b.text + "\n"
	}
	text = strings.ReplaceAll(text, "127.0.0.1:6379", redistest.Start(t).Addr())
	for _, address := range []string{"127.0.0.1:8080", "127.0.0.1:8081"} {
		text = strings.ReplaceAll(text, address, redistest.FreeAddress(t))
	}
	text = strings.Replace(text, "tour=$(mktemp -d)", "mkdir tour; tour=$PWD/tour", 1)
	text = strings.Replace(text, "rm -r $tour", "", 1)
	text = strings.Replace(text, "go build -o pushpace ./cmd/pushpace", "ln -s '"+rig.Binary+"' pushpace", 1)
	dir = rig.Write(t, "config.yaml", string(pushpace.ConfigYAML))
	cmd := exec.Command("bash", "-c", text)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second // for processes that a failed script leaves running
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	rig.Must(t, cmd.Start())
	end := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	timer := time.AfterFunc(8*time.Minute, end)
	defer timer.Stop()
	defer end()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return dir, out.String()
}

// shows fails unless the output contains the texts in this order, with any space between words.
func shows(t *testing.T, output string, texts ...string) {
	t.Helper()
	rest := strings.Join(strings.Fields(output), " ")
	for _, want := range texts {
		_, after, found := strings.Cut(rest, strings.Join(strings.Fields(want), " "))
		if !found {
			t.Fatalf("%q is not shown, or not where it is expected:\n%s", want, output)
		}
		rest = after
	}
}

// runScript runs a page's script, which must leave no files, and compares its output with the page's
// blocks marked shown. In these blocks … and the end of a line stand for any text.
func runScript(t *testing.T, page []block) {
	dir, output := script(t, page)
	for _, b := range blocksOf(page[0].page, pages(t, false)[page[0].page]) {
		if b.name == "shown" {
			shows(t, output, regexp.MustCompile("[…\n]+").Split(strings.TrimSpace(b.text), -1)...)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 { // config.yaml and pushpace
		t.Errorf("it leaves %v behind, %v", left, err)
	}
}

// runTour runs the tour, and checks its output and the ledger.
func runTour(t *testing.T, page []block) {
	if last := page[len(page)-1].text; !strings.Contains(last, "rm -r $tour") {
		t.Error("the tour leaves its folder behind")
	}
	dir, output := script(t, page)
	lines, err := os.ReadFile(filepath.Join(dir, "tour", "ledger.jsonl"))
	rig.Must(t, err)
	var orders, night, devices []standin.Entry
	for line := range strings.Lines(string(lines)) {
		var e standin.Entry
		rig.Must(t, json.Unmarshal([]byte(line), &e))
		if strings.HasPrefix(e.Notification, "order-") {
			orders = append(orders, e)
		}
		if strings.HasPrefix(e.Notification, "night-") || strings.HasPrefix(e.Notification, "like-") || e.Notification == "alarm" {
			night = append(night, e)
		}
		if strings.HasPrefix(e.Notification, "to-") {
			devices = append(devices, e)
		}
	}
	if len(devices) != 2 || devices[1].Platform != string(push.PlatformWebPush) || devices[1].At.Sub(devices[0].At) < 950*time.Millisecond {
		t.Errorf("the phone's and the laptop's arrived as %+v", devices)
	}
	if len(orders) != 5 || orders[4].At.Sub(orders[0].At) < 3900*time.Millisecond {
		t.Errorf("the orders arrived as %+v", orders)
	}
	slices.SortFunc(night, func(a, b standin.Entry) int { return a.At.Compare(b.At) })
	if len(night) != 7 || night[0].Notification != "alarm" || night[1].At.Second() > 50 || night[6].Notification != "like-Rosa" || night[6].At.Sub(night[1].At) < 4900*time.Millisecond {
		t.Errorf("the night's arrived as %+v", night)
	}
	// in the order of the tour
	shows(t, output,
		"a limit of its user: the limit 1/24h of category marketing", "until 20", ", in 23h59m",
		"ada in demo: too-much is next, and waits another 23h59m, until", "marketing 1/24h  1 of 1", "limit: the limit 1/24h of category marketing",
		"state delivered", `"notification":"order-5"`, "difference 0",
		`{"id":"invoice-1"}`, `{"results":[{"id":"welcome-1","status":200},{"id":"code-1","status":200}]}`, `"id":"invoice-1","state":"`, `"workers":[{"id":"`, `"source":"user"`,
		`"pointer":"/usr"`, `"difference":`, "eve in demo: ", "general gap 5s", "1 worker runs, 1 notification waits", "too-much is cancelled.",
		"quiet from ", "night-5 demo finn orders quiet_hours", "quiet hours until ", "into like-Rosa",
	)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 { // config.yaml, pushpace and the folder
		t.Errorf("the tour leaves %v behind, %v", left, err)
	}
}

// runTimeline compares the block with the golden output.
func runTimeline(t *testing.T, page []block) {
	golden, err := os.ReadFile(top + "internal/words/timeline/testdata/burst.txt")
	rig.Must(t, err)
	for _, b := range page {
		if !strings.HasPrefix(string(golden), b.text) {
			t.Errorf("%s:%d: it is not the beginning of\n%s", b.page, b.line, golden)
		}
	}
}

// runConfig loads each block as a configuration; it adds a Redis and apps if the block has none.
func runConfig(t *testing.T, page []block) {
	for _, b := range page {
		text := b.text
		for _, section := range []string{"redis: {address: embedded}\n", "apps: {shop: {simulated: true}, kiosk: {simulated: true}}\n"} {
			if key, _, _ := strings.Cut(section, ":"); !regexp.MustCompile(`(?m)^` + key + ":").MatchString(text) {
				text += section
			}
		}
		dir := rig.Write(t, "config.yaml", text)
		for _, name := range []string{"redis-password", "AuthKey.p8", "service-account.json", "webhook-secret", "vapid.pem"} {
			rig.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), 0o600))
		}
		if _, err := config.Load(filepath.Join(dir, "config.yaml"), nil); err != nil {
			t.Errorf("%s:%d: %v", b.page, b.line, err)
		}
	}
}

// forProducers runs a worker with the API, and returns the block with the API's address in place of
// the page's.
func forProducers(t *testing.T, b block) string {
	t.Helper()
	s := rig.NewSite(t)
	address := redistest.FreeAddress(t)
	s.Env = append(s.Env, "PUSHPACE_HTTP__LISTEN="+address)
	s.Serve(t)
	if !strings.Contains(b.text, "127.0.0.1:8080") {
		t.Errorf("%s:%d: it asks no API", b.page, b.line)
	}
	return strings.ReplaceAll(b.text, "127.0.0.1:8080", address)
}

// python runs a Python program and returns its output.
func python(t *testing.T, text string, args ...string) string {
	t.Helper()
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not on the PATH")
	}
	dir := rig.Write(t, "block.py", text)
	out, err := exec.CommandContext(t.Context(), interpreter, append([]string{filepath.Join(dir, "block.py")}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func runPython(t *testing.T, page []block) {
	for _, b := range page {
		shows(t, python(t, forProducers(t, b)), "order-4712 is on the queue", "order-4712 was known", "/targets")
	}
}

// runSignature runs the page's Python receiver on a message signed by a Standard Webhooks
// library.
func runSignature(t *testing.T, page []block) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	const call = "\nimport sys\nnames = 'webhook-id', 'webhook-timestamp', 'webhook-signature'\nprint(verify('" + secret + "', sys.argv[1].encode(), dict(zip(names, sys.argv[2:]))))\n"
	signer, err := standardwebhooks.NewWebhook(secret)
	rig.Must(t, err)
	now := time.Now()
	signature, err := signer.Sign("msg_1", now, []byte("{}"))
	rig.Must(t, err)
	for _, b := range page {
		for body, want := range map[string]string{"{}": "True\n", "{ }": "False\n"} {
			if got := python(t, b.text+call, body, "msg_1", fmt.Sprint(now.Unix()), "v1,b2xk "+signature); got != want {
				t.Errorf("%s:%d: of %s it says %s", b.page, b.line, body, got)
			}
		}
	}
}

// runReports reads the bodies of webhooks, and compares them with their encoding.
func runReports(t *testing.T, page []block) {
	for _, b := range page {
		kinds := 0
		for decoder := json.NewDecoder(strings.NewReader(b.text)); decoder.More(); kinds++ {
			var raw json.RawMessage
			rig.Must(t, decoder.Decode(&raw))
			var body struct {
				DeadTokens []store.DeadToken    `json:"dead_tokens,omitempty"`
				Outcomes   []store.OutcomeEvent `json:"outcomes,omitempty"`
			}
			rig.Must(t, json.Unmarshal(raw, &body))
			encoded, err := json.Marshal(body)
			rig.Must(t, err)
			var shown bytes.Buffer
			rig.Must(t, json.Compact(&shown, raw))
			if shown.String() != string(encoded) {
				t.Errorf("%s:%d: shows %s, want %s", b.page, b.line, &shown, encoded)
			}
		}
		if kinds != 2 {
			t.Errorf("%s:%d: shows %d bodies", b.page, b.line, kinds)
		}
	}
}

var (
	code    = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|<img src="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(text string) []string {
	var all []string
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(withoutBlocks(text), -1) {
		anchor := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		anchor = regexp.MustCompile(`[^\p{L}\p{N}_-]`).ReplaceAllString(anchor, "")
		if seen[anchor]++; seen[anchor] > 1 {
			anchor += fmt.Sprint("-", seen[anchor]-1)
		}
		all = append(all, anchor)
	}
	return all
}

// withoutBlocks returns the text without its fenced blocks.
func withoutBlocks(text string) string {
	var kept strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if fence.MatchString(line) {
			inside = !inside
		} else if !inside {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// Every link of a page leads to an existing file, and every anchor to a heading. README.md links each
// page of docs/.
func TestDocsLinks(t *testing.T) {
	all := pages(t, true)
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(withoutBlocks(text), ""), -1) {
			target := m[1] + m[2]
			if strings.Contains(target, "://") {
				continue
			}
			path, anchor, _ := strings.Cut(target, "#")
			file := page
			if path != "" {
				file = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(top + file); err != nil {
				t.Errorf("%s: %s leads nowhere: %v", page, target, err)
			} else if anchor != "" && !slices.Contains(anchors(all[file]), anchor) {
				t.Errorf("%s: %s: there is no such heading", page, target)
			}
		}
	}
	for page := range all {
		if name := filepath.Base(page); strings.HasPrefix(page, "docs/") && !strings.Contains(all["README.md"], "(docs/"+name+")") {
			t.Errorf("README.md does not name %s", name)
		}
	}
}
