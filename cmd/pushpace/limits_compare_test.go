//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/compare"
)

// A trace is replayed through the limits that are named, and JSON has just these fields.
func TestLimitsCompare(t *testing.T) {
	t.Parallel()
	dir := write(t, "trace.jsonl", `{"t":0,"id":"u"}`+"\n"+`{"t":10,"id":"u","op":"limit"}`+"\n"+`{"t":10,"id":"v"}`+"\n"+`{"t":500,"id":"u"}`+"\n")
	named := []string{"limits", "compare", "trace.jsonl", "--as", "now={min_gap: 100ms, rates: [2/1s]}", "--as", "tighter={rates: [1/1s]}"}
	got := ended(t, setup{dir: dir}, append(named, "--json", "--svg", "limits.svg")...)
	d := json.NewDecoder(strings.NewReader(got.stdout))
	d.DisallowUnknownFields()
	var s compare.Summary
	if err := d.Decode(&s); err != nil || got.status != exitDone || got.stderr != "" {
		t.Fatalf("%v: %+v", err, got)
	}
	now, tighter := s.Contestants["now"], s.Contestants["tighter"]
	if s.Arrivals != 4 || now.Admitted != 3 || now.Denied != 1 || now.MostInPeriod != 2 || tighter.Admitted != 2 || tighter.Denied != 2 ||
		tighter.WaitMS != (compare.WaitMS{Mean: 622.5, P99: 1500}) || tighter.Bytes == 0 || tighter.Commands != 1.5 {
		t.Errorf("%+v", s)
	}
	if picture, err := os.ReadFile(filepath.Join(dir, "limits.svg")); err != nil || !strings.HasPrefix(string(picture), "<svg ") {
		t.Errorf("%v: %s", err, picture)
	}
	table := ended(t, setup{dir: dir}, append(named, "--together")...)
	for _, want := range []string{"4 arrivals in 500ms, of 1 that", "now ", "rolling 100ms apart 2/1s", "At worst", "tighter  1 in 1s: 1 at 0s"} {
		if table.status != exitDone || !strings.Contains(table.stdout, want) {
			t.Errorf("%q is not there: %+v", want, table)
		}
	}
	// and what simulate writes, from standard input
	ledger := `{"at":"2026-11-20T20:00:00.000001Z","platform":"fcm","app":"p","token":"t","payload_bytes":1}`
	got = ended(t, setup{stdin: strings.NewReader(ledger)}, "limits", "compare", "-", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &s); err != nil || s.Arrivals != 1 || len(s.Contestants) != len(compare.Default())+2 {
		t.Errorf("%v: %+v", err, got)
	}
}

// Of a trace with a broken line nothing is compared or drawn.
func TestLimitsCompareBrokenTrace(t *testing.T) {
	t.Parallel()
	dir := write(t, "trace.jsonl", `{"t":0,"id":"u"}`+"\n"+`{"t":1,"id":"hunter2"`+"\n")
	got := ended(t, setup{dir: dir}, "limits", "compare", "trace.jsonl", "--svg", "limits.svg")
	if got.status != exitUsage || got.stdout != "" || !strings.Contains(got.stderr, "trace.jsonl:2: not an object of JSON") || strings.Contains(got.stderr, "hunter2") {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "limits.svg")); !os.IsNotExist(err) {
		t.Errorf("a picture is there: %v", err)
	}
}
