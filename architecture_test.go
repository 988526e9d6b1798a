package pushpace_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

const module = "github.com/pushpace/pushpace/"

// page returns the text of docs/architecture.md, and its mermaid blocks by their first word.
func page(t *testing.T) (text string, pictures map[string]string) {
	t.Helper()
	raw, err := os.ReadFile("docs/architecture.md")
	must(t, err)
	text, pictures = string(raw), map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```mermaid\n(\\S+)(.*?)```").FindAllStringSubmatch(text, -1) {
		pictures[m[1]] = m[2]
	}
	return text, pictures
}

// arrows returns a picture's arrows as FROM --> TO, without their labels.
func arrows(picture string) map[string]bool {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\s*(\S+) --> (\S+?)(?:: .*)?$`).FindAllStringSubmatch(picture, -1) {
		found[m[1]+" --> "+m[2]] = true
	}
	return found
}

// The picture of the states has the states of the code: a notification is first waiting, and then in
// one of the end states.
func TestStatePictureMatchesCode(t *testing.T) {
	t.Parallel()
	_, pictures := page(t)
	want := map[string]bool{"[*] --> waiting": true}
	for _, state := range store.EndStates {
		want[string(push.Waiting)+" --> "+string(state)] = true
		want[string(state)+" --> [*]"] = true
	}
	differ(t, arrows(pictures["stateDiagram-v2"]), want)
}

// The picture of the gates names the same six gates as the list below it, in the same order.
func TestGatePictureMatchesList(t *testing.T) {
	t.Parallel()
	text, pictures := page(t)
	_, section, _ := strings.Cut(text, "## Between a job and its provider")
	section, _, _ = strings.Cut(section, "\n## ")
	boxes := regexp.MustCompile(`\["(\d) (\w+)"\]`).FindAllStringSubmatch(pictures["flowchart"], -1)
	listed := regexp.MustCompile(`(?m)^(\d)\. \*\*([^*]+)\*\*.* \(`+"`(worker|providers)").FindAllStringSubmatch(section, -1)
	if len(boxes) != 6 || len(listed) != len(boxes) {
		t.Fatalf("%d are drawn and %d are listed", len(boxes), len(listed))
	}
	for i, box := range boxes {
		if listed[i][1] != box[1] || !strings.Contains(strings.ToLower(listed[i][2]), box[2]) {
			t.Errorf("%q is drawn where %q is listed", box[1:], listed[i][1:3])
		}
	}
}

const (
	base  = "internal/base"  // the ground floor, one box of the picture
	moves = "internal/store" // the only package whose scripts move jobs
)

// ours returns the packages of this module, each with the packages of this module that it imports.
// Tests are left out.
func ours(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		name := strings.TrimPrefix(words[0], module)
		imports[name] = []string{}
		for _, path := range words[1:] {
			if below, is := strings.CutPrefix(path, module); is {
				imports[name] = append(imports[name], below)
			}
		}
	}
	return imports
}

// Of internal, the engine imports only the store and the ground floor, the store only the ground
// floor, and the ground floor only itself: no arrow of the picture leads upwards.
func TestBaseImportsNothingAbove(t *testing.T) {
	t.Parallel()
	engine, ground := 0, 0
	for name, all := range ours(t) {
		switch top, _, _ := strings.Cut(name, "/"); {
		case strings.HasPrefix(name, base+"/"):
			ground++
			for _, below := range all {
				if !strings.HasPrefix(below, base+"/") {
					t.Errorf("%s, of the ground floor, imports %s", name, below)
				}
			}
		case name == moves, slices.Contains([]string{"push", "throttle", "providers", "worker"}, top):
			engine++
			for _, below := range all {
				if name == moves && !strings.HasPrefix(below, base+"/") || strings.HasPrefix(below, "internal/") && below != moves && !strings.HasPrefix(below, base+"/") {
					t.Errorf("%s imports %s, which is above the engine", name, below)
				}
			}
		}
	}
	if engine < 10 || ground < 5 {
		t.Errorf("%d packages of the engine, %d of the ground floor", engine, ground)
	}
}

// The picture has every package that is neither in internal nor for tests. Of internal it has app, cli,
// api, console, operate, store, and base as one box. Of the imports among them it has every import that
// no longer path implies.
func TestPackagePictureMatchesImports(t *testing.T) {
	t.Parallel()
	_, pictures := page(t)
	imports := map[string][]string{base: nil}
	for name, all := range ours(t) {
		if name == strings.TrimSuffix(module, "/") || name == "deploy" || strings.HasSuffix(name, "test") || strings.HasPrefix(name, "test/") || name == "providers/standin" || strings.HasPrefix(name, "internal/") && name != "internal/app" && name != "internal/cli" && name != "internal/api" && name != "internal/console" && name != "internal/operate" && name != moves {
			continue
		}
		imports[name] = all
	}
	for name, all := range imports {
		own := make([]string, 0, len(all))
		for _, path := range all {
			if strings.HasPrefix(path, base+"/") {
				path = base
			}
			if _, drawn := imports[path]; drawn && !slices.Contains(own, path) {
				own = append(own, path)
			}
		}
		imports[name] = own
	}
	want := map[string]bool{}
	for name, below := range imports {
		for _, b := range below {
			implied := slices.ContainsFunc(below, func(other string) bool { return other != b && leads(imports, other, b) })
			if !implied {
				want[name+" --> "+b] = true
			}
		}
	}
	differ(t, arrows(pictures["graph"]), want)
}

// leads reports whether imports lead from one package to the other.
func leads(imports map[string][]string, from, to string) bool {
	return slices.ContainsFunc(imports[from], func(next string) bool { return next == to || leads(imports, next, to) })
}

func differ(t *testing.T, got, want map[string]bool) {
	t.Helper()
	for _, arrow := range slices.Sorted(maps.Keys(want)) {
		if !got[arrow] {
			t.Errorf("the picture lacks %s", arrow)
		}
	}
	for _, arrow := range slices.Sorted(maps.Keys(got)) {
		if !want[arrow] {
			t.Errorf("the picture has %s, the code has not", arrow)
		}
	}
}

// Every file, folder and package that the page names exists.
func TestArchitecturePathsExist(t *testing.T) {
	t.Parallel()
	text, _ := page(t)
	for _, m := range regexp.MustCompile("`((?:push|throttle|providers|worker|internal|cmd|docs|bench|test)(?:/[\\w.-]+)*/?)`").FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Error(err)
		}
	}
	_, glossary, _ := strings.Cut(text, "## Glossary")
	if n := len(regexp.MustCompile(`(?m)^- \*\*`).FindAllString(glossary, -1)); n > 25 {
		t.Errorf("the glossary has %d words, at most 25", n)
	}
}

// Every test that test/README.md names for a promise is in the folder named there.
func TestPromisesHaveTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("test/README.md")
	must(t, err)
	folder, found := "", 0
	for _, m := range regexp.MustCompile("`([\\w/]+)`").FindAllStringSubmatch(string(page), -1) {
		if !strings.HasPrefix(m[1], "Test") {
			folder = m[1]
			continue
		}
		files, _ := filepath.Glob(folder + "/*_test.go")
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc "+m[1]+"(t *testing.T)")
		}) {
			t.Errorf("%s has no %s", folder, m[1])
		}
		found++
	}
	if found < 50 {
		t.Errorf("%d tests are named", found)
	}
}

// All code that reads files written by people uses internal/base/textfile, which accepts a byte order
// mark and reports UTF-16. Exceptions are listed with the reason.
func TestOnlyTextfilePackageReadsTextFiles(t *testing.T) {
	t.Parallel()
	others := map[string]string{
		"internal/base/textfile/textfile.go":  "is the reader",
		"internal/redisserver/redisserver.go": "reads the log of redis-server",
		"internal/console/static.go":          "reads files of the binary",
		"internal/base/golden/golden.go":      "reads files of tests",
	}
	read := regexp.MustCompile(`\b(?:ReadFile|LoadX509KeyPair|AuthKeyFromFile)\(`)
	for file, text := range sources(t) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "bench/") || others[file] != "" {
			continue
		}
		if found := read.FindString(text); found != "" {
			t.Errorf("%s calls %s…): read text with internal/base/textfile", file, found)
		}
	}
}

// sources returns the texts of the Go and Lua files of the working copy, by path. The test is skipped
// without a git repository.
func sources(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go", "*.lua").Output()
	if err != nil {
		t.Skip(err)
	}
	texts := map[string]string{}
	for _, path := range strings.Fields(string(out)) {
		if text, err := os.ReadFile(path); err == nil { // other files are removed, and not committed yet
			texts[path] = string(text)
		}
	}
	return texts
}

// Only internal/store has names of asynq's keys, and internal/base/shard, which chooses the queues'
// names by their hash slots.
func TestOnlyStoreNamesAsynqKeys(t *testing.T) {
	t.Parallel()
	key := regexp.MustCompile("[\"`'][^\"`'\n]*asynq" + ":")
	for file, text := range sources(t) {
		if strings.HasPrefix(file, moves+"/") || strings.HasPrefix(file, base+"/shard/") {
			continue
		}
		if found := key.FindString(text); found != "" {
			t.Errorf("%s names a key of asynq's: %s", file, found)
		}
	}
}

// The table of moves names every script that moves a job, with the FROM -> TO of the script's header.
// Only the store has scripts that move jobs.
func TestMoveTableMatchesScripts(t *testing.T) {
	t.Parallel()
	text, _ := page(t)
	_, table, _ := strings.Cut(text, "<!-- test: moves -->")
	table, _, _ = strings.Cut(table, "\n\n")
	named := map[string]string{} // by script: the script's moves in the table
	for line := range strings.Lines(table) {
		for _, m := range regexp.MustCompile("`([a-z]+\\.lua)`").FindAllStringSubmatch(line, -1) {
			named[m[1]] += strings.Split(line, "|")[2]
		}
	}
	arrow := regexp.MustCompile(`(?:[a-z, ]+|-)\s-> [a-z]+`)
	files, err := filepath.Glob(moves + "/*.*")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		code, err := os.ReadFile(file)
		must(t, err)
		name := filepath.Base(file)
		said := arrow.FindAllString(strings.Split(string(code), "\nlocal ")[0], -1)
		if !strings.HasSuffix(name, ".lua") {
			said = nil
		}
		for _, move := range said {
			_, to, _ := strings.Cut(move, " -> ")
			if !strings.Contains(named[name], "→ "+to) {
				t.Errorf("%s moves%s, the table has%s", name, move, named[name])
			}
		}
		if moving.Match(code) && named[name] == "" && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s moves jobs, but is not in the table", name)
		}
		delete(named, name)
	}
	for name := range named {
		t.Errorf("the table names %s", name)
	}
	for path, code := range sources(t) {
		if inProduct(path) && !strings.HasPrefix(path, moves) && (moving.MatchString(code) || placed.MatchString(code)) {
			t.Errorf("%s moves jobs", path)
		}
	}
}

// inProduct reports whether a file belongs to the program: it is neither a test, nor a tool nor a
// provider.
func inProduct(path string) bool {
	top, _, _ := strings.Cut(path, "/")
	return slices.Contains([]string{"push", "throttle", "worker", "internal", "cmd"}, top) && !strings.HasSuffix(path, "_test.go")
}

var (
	// moving matches a script's command that moves a job from or to a list or set of a queue.
	moving = regexp.MustCompile(`(?i)call\(.*'([LR]PUSH|[LR]POP|LREM)'|'state', '(pending|active|retry|scheduled)'`)
	// placed matches the key of such a list or set.
	placed = regexp.MustCompile(`QueueKey\([^)]*"(pending|retry|scheduled)"\)`)
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
