package compare

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
)

// read reads the text, as the arrivals' instants in µs, each with its key.
func read(t *testing.T, text string, together bool) string {
	t.Helper()
	a, err := Read(strings.NewReader(text), "trace.jsonl", together)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range a.at {
		fmt.Fprintf(&b, "%d:%d ", a.at[i], a.key[i])
	}
	return strings.TrimSpace(b.String())
}

func TestRead(t *testing.T) {
	t.Parallel()
	ledger := new(bytes.Buffer)
	write := standin.Lines(ledger)
	at := time.Date(2026, 11, 20, 20, 0, 0, 250_000, time.UTC)
	for _, e := range []standin.Entry{{At: at, App: "a", Token: "1"}, {At: at, App: "b", Token: "1"}, {At: at, App: "a", Token: "1", Notification: "n"}} {
		if err := write(e); err != nil {
			t.Fatal(err)
		}
	}
	µs := at.UnixMicro()
	for _, c := range []struct {
		name, text string
		together   bool
		want       string
	}{
		{"IDs have their own", `{"t":0,"id":"u","op":"limit"}` + "\n" + `{"t":4,"id":"v"}` + "\n\n" + `{"t":4.5,"id":"u"}`, false, "0:0 4000:1 4500:0"},
		{"together", `{"t":0,"id":"u"}` + "\n" + `{"t":4,"id":"v"}`, true, "0:0 4000:0"},
		{"would only looks", `{"t":0,"id":"u"}` + "\n" + `{"t":1,"id":"u","op":"would"}`, false, "0:0"},
		{"clear forgets", `{"t":0,"id":"u"}` + "\n" + `{"t":1,"id":"u","op":"clear"}` + "\n" + `{"t":2,"id":"u"}`, false, "0:0 2000:1"},
		{"in any order", `{"t":5,"id":"u"}` + "\n" + `{"t":4,"id":"v"}` + "\n" + `{"t":5,"id":"w"}`, false, "4000:1 5000:0 5000:2"},
		{"a ledger's tokens, by app", ledger.String(), false, fmt.Sprintf("%d:0 %d:1 %d:0", µs, µs, µs)},
	} {
		if got := read(t, c.text, c.together); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// A line that is broken is named, and nothing of it is told.
func TestReadBroken(t *testing.T) {
	t.Parallel()
	const good = `{"t":0,"id":"u"}` + "\n"
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "trace.jsonl: nothing arrives"},
		{"looks alone", `{"t":0,"id":"u","op":"would"}`, "trace.jsonl: nothing arrives"},
		{"half a line", good + `{"t":0,"id":"secr`, "trace.jsonl:2: not an object of JSON: "},
		{"after a blank line", good + "\n" + `t=1`, "trace.jsonl:3: not an object of JSON: "},
		{"more behind it", good + good[:len(good)-1] + good, "trace.jsonl:2: not an object of JSON: "},
		{"no instant", good + `{"id":"secret"}`, `trace.jsonl:2: want "t" and "id"`},
		{"no ID", good + `{"t":1}`, `trace.jsonl:2: want "t" and "id"`},
		{"both kinds", good + `{"t":1,"id":"u","at":"2026-11-20T20:00:00Z"}`, `trace.jsonl:2: want "t" and "id"`},
		{"an instant in words", good + `{"t":"secret","id":"u"}`, `trace.jsonl:2: "t" is of the wrong type`},
		{"before 1970", good + `{"t":-1,"id":"u"}`, "trace.jsonl:2: the instant is before 1970"},
		{"too late", good + `{"t":1e300,"id":"u"}`, "trace.jsonl:2: the instant is"},
		{"unknown operation", good + `{"t":1,"id":"u","op":"secret"}`, `trace.jsonl:2: "op" is none of`},
		{"a list", good + `[]`, "trace.jsonl:2: not an object of JSON: "},
		{"a ledger without a token", `{"at":"2026-11-20T20:00:00Z","app":"a"}`, `trace.jsonl:1: want "t"`},
		{"too long", good + strings.Repeat(" ", maxLine+1), "trace.jsonl:2: the line is longer than 65536 bytes"},
	} {
		a, err := Read(strings.NewReader(c.text), "trace.jsonl", false)
		if a != nil || err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v", c.name, a, err)
		}
	}
}

// A file is read as far as MaxArrivals.
func TestReadTooMany(t *testing.T) {
	t.Parallel()
	r := reader{Arrivals: Arrivals{at: make([]int64, MaxArrivals)}}
	if err := r.line([]byte(`{"t":0,"id":"u"}`)); err != errTooMany {
		t.Error(err)
	}
}

func TestSynthesize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text        string
		least, most int
		span        time.Duration // nearly
	}{
		{"poisson:20/s", 5700, 6300, 5 * time.Minute},
		{"poisson:20/1s", 5700, 6300, 5 * time.Minute},
		{"poisson:60/m", 240, 360, 5 * time.Minute},
		{"burst:1000", 1000, 1000, 0},
		{"hourly", 38_700, 40_500, 2 * time.Hour},
	} {
		a, err := Synthesize(c.text)
		if err != nil || a.Len() < c.least || a.Len() > c.most || a.Span() > c.span || a.Span() < c.span-5*time.Second || !slices.IsSorted(a.at) || a.keys != 1 {
			t.Errorf("%s: %d in %s, %v", c.text, a.Len(), a.Span(), err)
		}
		again, _ := Synthesize(c.text)
		if !slices.Equal(a.at, again.at) {
			t.Errorf("%s: another time they are others", c.text)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"", "want poisson:RATE"},
		{"daily", "want poisson:RATE"},
		{"hourly:2", "want poisson:RATE"},
		{"burst", "want poisson:RATE"},
		{"burst:0", "want a count"},
		{"burst:many", "want a count"},
		{"burst:9999999", "more than 5000000"},
		{"poisson:20", "no slash"},
		{"poisson:20/", "not a duration"},
		{"poisson:0/s", "not positive"},
		{"poisson:1000000/1ms", "more than 5000000"},
		{"poisson:1/9000h", "nothing arrives"},
	} {
		if _, err := Synthesize(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}
