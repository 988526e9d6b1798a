//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle/limits"
)

const limitsConfig = `
limits:
  default: {min_gap: 1s, rates: [10/1m]}
  categories: {marketing: {rates: [1/24h]}}
  time_zone: Asia/Kolkata
`

// limitsSite is a configuration with a Redis of its own, on which commands run.
func limitsSite(t *testing.T) func(want int, args ...string) *program {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the program")
	}
	s := setup{dir: write(t, "config.yaml", "redis: {address: \""+redistest.Start(t).Addr()+"\"}"+limitsConfig)}
	return func(want int, args ...string) *program {
		t.Helper()
		p := start(t, s, append([]string{"limits"}, args...)...)
		if got := p.wait(t, 20*time.Second); got != want {
			t.Errorf("limits %s: exit status %d, want %d: %s", args, got, want, &p.stderr)
		}
		return p
	}
}

func TestLimitsCommands(t *testing.T) {
	t.Parallel()
	run := limitsSite(t)
	run(exitDone, "set", "--user", "ada", "--min-gap", "500ms", "--rate", "30/1m", "--rate", "100/24h", "--for", "2h", "--by", "ann")
	run(exitDone, "set", "--category", "marketing", "--rate", "2/24h", "--by", "bob")
	run(exitDone, "set", "--user", "ada", "--category", "security", "--exempt", "--until", "2099-01-01T00:00:00Z")

	type inForce struct {
		MinGap string   `json:"min_gap"`
		Rates  []string `json:"rates"`
		Exempt bool     `json:"exempt"`
		Source string   `json:"source"`
	}
	var got struct {
		General inForce `json:"general"`
		Own     inForce `json:"of_category"`
	}
	for _, c := range []struct {
		args         []string
		general, own string
	}{
		{[]string{"--user", "ada", "--category", "security"}, "500ms 30/1m,100/24h user", " exempt user and category"},
		{[]string{"--user", "bob", "--category", "marketing"}, "1s 10/1m configuration", " 2/24h category"},
		{[]string{"--category", "orders"}, "1s 10/1m configuration", "  configuration"},
	} {
		p := run(exitDone, append([]string{"get", "--json"}, c.args...)...)
		if err := json.Unmarshal([]byte(p.stdout.String()), &got); err != nil {
			t.Fatal(err)
		}
		describe := func(f inForce) string {
			what := strings.Join(f.Rates, ",")
			if f.Exempt {
				what = "exempt"
			}
			return f.MinGap + " " + what + " " + f.Source
		}
		if describe(got.General) != c.general || describe(got.Own) != c.own {
			t.Errorf("get %s: %+v", c.args, got)
		}
		got.Own, got.General = inForce{}, inForce{}
	}
	if out := run(exitDone, "get", "--user", "ada").stdout.String(); !strings.Contains(out, "500ms apart, 30/1m, 100/24h  from the override of the user  until 20") {
		t.Errorf("get prints %s", out)
	}
	if out := run(exitDone, "list").stdout.String(); !strings.Contains(out, "ada   security   -      exempt") || strings.Count(out, "\n") != 4 {
		t.Errorf("list prints\n%s", out)
	}

	run(exitDone, "set", "--user", "ada", "--min-gap", "500ms", "--rate", "30/1m", "--rate", "100/24h", "--for", "2h", "--by", "ann", "--quiet-hours", "22:00-08:00")
	night := regexp.MustCompile(`quiet from \w{3} (\S+ 22:00:00) to \w{3} \S+ 08:00:00 in Asia/Kolkata \(\S+T16:30:00.000Z to \S+T02:30:00.000Z\), each user's up to 10m later\n`)
	if out := run(exitDone, "get", "--user", "ada").stdout.String(); !strings.Contains(out, "quiet 22:00-08:00  from the override") || len(night.FindAllString(out, -1)) != 2 {
		t.Errorf("get prints %s", out)
	}
	if out := run(exitDone, "get", "--app", "demo", "--user", "ada").stdout.String(); strings.Count(out, "quiet from") != 2 || strings.Contains(out, "later") {
		t.Errorf("get prints %s", out)
	}
	run(exitDone, "set", "--user", "ada", "--category", "alerts", "--quiet-hours", "none", "--by", "ann")
	if out := run(exitDone, "get", "--user", "ada", "--category", "alerts").stdout.String(); !strings.Contains(out, "no quiet hours") || strings.Contains(out, "quiet from") {
		t.Errorf("get prints %s", out)
	}
	run(exitDone, "unset", "--user", "ada", "--category", "alerts")

	exported := run(exitDone, "export").stdout.String()
	file := filepath.Join(t.TempDir(), "limits.jsonl")
	if err := os.WriteFile(file, []byte(exported+`{"user":"old","rates":["1/1m"],"until":"2020-01-01T00:00:00Z"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run(exitDone, "unset", "--user", "ada")
	run(exitDone, "unset", "--category", "marketing")
	run(exitFailed, "unset", "--user", "ada")
	if p := run(exitDone, "import", file, "--dry-run"); !strings.Contains(p.stderr.String(), "3 are valid; nothing was set") {
		t.Errorf("a dry run says %s", &p.stderr)
	}
	if out := run(exitDone, "list", "--json").stdout.String(); strings.Count(out, "\n") != 1 {
		t.Errorf("a dry run leaves\n%s", out)
	}
	if p := run(exitDone, "import", file, "--by", "carl"); !strings.Contains(p.stderr.String(), "1 have ended") || !strings.Contains(p.stderr.String(), "3 are set") {
		t.Errorf("import says %s", &p.stderr)
	}
	again := run(exitDone, "export").stdout.String()
	bare := func(lines string) (all []string) {
		for line := range strings.Lines(lines) {
			var o limits.Override
			if err := json.Unmarshal([]byte(line), &o); err != nil {
				t.Fatal(err)
			}
			o.By, o.At = "", time.Time{}
			text, _ := json.Marshal(o)
			all = append(all, string(text))
		}
		return all
	}
	if before, after := strings.Join(bare(exported), "\n"), strings.Join(bare(again), "\n"); before != after {
		t.Errorf("exported were\n%s\nimported are\n%s", before, after)
	}

	var whys []string
	for line := range strings.Lines(run(exitDone, "log", "--json").stdout.String()) {
		var c limits.Change
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		whys = append(whys, c.Why+" "+c.User+"/"+c.Category)
	}
	// the one that stood there still is no change
	want := "set ada/ set /marketing unset /marketing unset ada/ unset ada/alerts set ada/alerts set ada/ set ada/security set /marketing set ada/"
	if got := strings.Join(whys, " "); got != want {
		t.Errorf("the log says %s, want %s", got, want)
	}
	if out := run(exitDone, "log", "-n", "1").stdout.String(); !strings.Contains(out, "  carl  ") || strings.Count(out, "\n") != 2 {
		t.Errorf("log prints\n%s", out)
	}
}

func TestLimitsThatAreRefused(t *testing.T) {
	t.Parallel()
	run := limitsSite(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"set", "--rate", "1/1m"}, "want --app, --user, --category or several"},
		{[]string{"set", "--user", "u"}, "--min-gap: is missing, as rates and quiet_hours are"},
		{[]string{"set", "--user", "u", "--rate", "-1/1m"}, "the count is negative"},
		{[]string{"set", "--user", "u", "--rate", "1000000/1s"}, "allows more than 1000 a second"},
		{[]string{"set", "--user", "u", "--min-gap", "1h", "--rate", "10/1m"}, "--min-gap: 1h is longer than every"},
		{[]string{"set", "--user", "u", "--rate", "1/25h"}, "longer period than the horizon"},
		{[]string{"set", "--user", "u", "--exempt"}, "--exempt: is for a category"},
		{[]string{"set", "--user", "u", "--quiet-hours", "22-08"}, `--quiet-hours: quiet_hours "22-08": want [DAYS ]HH:MM-HH:MM`},
		{[]string{"set", "--user", "u", "--quiet-hours", "00:00-24:00"}, "--quiet-hours: quiet_hours leave no time to send"},
		{[]string{"set", "--category", "all", "--rate", "1/1m"}, "category: all is the name"},
		{[]string{"set", "--user", "u", "--rate", "1/1m", "--until", "tomorrow"}, "--until: want an instant"},
		{[]string{"set", "--user", "u", "--rate", "1/1m", "--for", "-1h"}, "--for: want a positive"},
		{[]string{"set", "--user", "u", "--rate", "1/1m", "--for", "1h", "--until", "2099-01-01T00:00:00Z"}, "give one"},
		{[]string{"set", "--user", "u", "--rate", "1/1m", "--until", "2020-01-01T00:00:00Z"}, "--until: has passed"},
		{[]string{"unset"}, "want --app, --user, --category or several"},
		{[]string{"unset", "--user", "u", "--by", "a\nb"}, "--by: must be UTF-8 without control characters"},
		{[]string{"import", "none.jsonl"}, "none.jsonl"},
		{nil, "want get, set"},
	} {
		if p := run(exitUsage, c.args...); !strings.Contains(p.stderr.String(), c.want) {
			t.Errorf("%s: %s, want %q", c.args, &p.stderr, c.want)
		}
	}
	if p := run(exitDone, "set", "--user", "u", "--rate", "10/1m", "--rate", "1000/1h"); !strings.Contains(p.stderr.String(), "warning: rate 1000/1h never decides") {
		t.Errorf("a void rate: %s", &p.stderr)
	}
}

func TestReadOverrides(t *testing.T) {
	t.Parallel()
	const good = `{"user":"u","rates":["1/1m"],"by":"who","at":"2026-01-01T00:00:00Z"}`
	for _, c := range []struct {
		text string
		want string // in the error; "" for none
	}{
		{good, ""},
		{"\n" + good + "\n\n", ""},
		{good + "\n" + `{"user":"v","rates":["1/1x"]}`, `line 2: rate "1/1x"`},
		{`{"user":"v","rate":["1/1m"]}`, `line 1: json: unknown field "rate"`},
		{good + "\n" + good, `line 2: is for the same as line 1: user u`},
		{`{"user":"v"}` + "\n" + `{"category":"all","rates":["1/1m"]}`, "line 1: min_gap: is missing, as rates and quiet_hours are"},
		{`{"user":"v"}` + "\n" + `{"category":"all","rates":["1/1m"]}`, "line 2: category: all"},
		{`{"user":"v","rates":["1/1m"]} x`, "line 1: "},
		{strings.Repeat("x", maxLine+1), "line 1: the line is too long"},
		{"[]", "line 1: "},
		{`{"user":"v","rates":["1/1m"],"user":"w"}`, "line 1: /user"},
		{`{"user":"v","rates":["1/1m"],"RATES":["9/1m"]}`, "line 1: /RATES"},
	} {
		read, err := readOverrides(strings.NewReader(c.text), 24*time.Hour)
		switch {
		case c.want == "" && (err != nil || len(read.all) != 1 || read.all[0].By == ""):
			t.Errorf("%.60s: %+v, %v", c.text, read, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%.60s: %v, want %q", c.text, err, c.want)
		}
	}
}

// What is odd about the configured limits is told by its place and name.
func TestCheckWarns(t *testing.T) {
	t.Parallel()
	dir := write(t, "config.yaml", "redis: {address: embedded}\nlimits:\n  default: {min_gap: 1s, rates: [100/1m]}\n  categories: {news: {rates: [10/1h, 5/24h]}}\napps: {demo: {simulated: true}}\n")
	p := start(t, setup{dir: dir}, "check", "--json")
	if got := p.wait(t, 10*time.Second); got != exitDone {
		t.Fatalf("exit status %d: %s", got, &p.stderr)
	}
	var e effective
	if err := json.Unmarshal([]byte(p.stdout.String()), &e); err != nil {
		t.Fatal(err)
	}
	if len(e.Warnings) != 2 || !strings.HasPrefix(e.Warnings[0], "config.yaml:3:3: limits.default: rate 100/1m never decides: min_gap 1s") ||
		!strings.HasPrefix(e.Warnings[1], "config.yaml:4:16: limits.categories.news: rate 10/1h never decides: rate 5/24h") {
		t.Errorf("warnings %q", e.Warnings)
	}
}
