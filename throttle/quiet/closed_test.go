package quiet

import (
	"archive/zip"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
)

// zones returns the zones of Go's own data; one of each set of zones that are equal from 2000 to
// 2037.
func zones(t *testing.T) map[string]*time.Location {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	must(t, err)
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	must(t, err)
	defer archive.Close()
	seen, all := map[string]bool{}, map[string]*time.Location{}
	for _, file := range archive.File {
		in, err := zone.Load(file.Name)
		if err != nil {
			continue // a folder
		}
		told := ""
		for _, at := range jumps(in) {
			_, offset := at.In(in).Zone()
			told += fmt.Sprint(at.Unix(), " ", offset, ",")
		}
		if !seen[told] {
			seen[told], all[file.Name] = true, in
		}
	}
	if len(all) < 150 {
		t.Fatalf("only %d zones", len(all))
	}
	return all
}

// jumps returns the zone's changes from 2000 to 2037, and the start of 2000.
func jumps(in *time.Location) []time.Time {
	last := time.Date(2038, time.January, 1, 0, 0, 0, 0, time.UTC)
	list := []time.Time{time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)}
	for at := list[0]; ; list = append(list, at) {
		_, at = at.In(in).ZoneBounds()
		if at.IsZero() || at.After(last) {
			return list
		}
	}
}

// step is the distance of the instants under test: it divides the times of all jumps and windows
// below.
const step = 5 * 60

// closedByClock computes the closed intervals by stepping through what the zone's clock shows.
func closedByClock(h Hours, in *time.Location, from, upto int64) []Interval {
	const around = 4 * 24 * 60 * 60
	begin := (from - around) / step * step
	var shown []int64
	for at := begin; at < upto+around; at += step {
		_, offset := time.Unix(at, 0).In(in).Zone()
		shown = append(shown, at+int64(offset))
	}
	var all []Interval
	for date := (from - around/2) / 86400; date <= (upto+around/2)/86400; date++ {
		for _, w := range h {
			if !w.Days.Has(time.Unix(date*86400, 0).UTC().Weekday()) {
				continue
			}
			opens, ends := date*86400+int64(w.From)*60, date*86400+int64(w.Upto)*60
			if w.Upto <= w.From {
				ends += 86400
			}
			first := slices.IndexFunc(shown, func(local int64) bool { return local >= opens })
			past := len(shown)
			for past > 0 && shown[past-1] >= ends {
				past--
			}
			if first >= 0 && first < past {
				all = append(all, Interval{begin + int64(first)*step, begin + int64(past)*step})
			}
		}
	}
	return slices.DeleteFunc(join(all), func(i Interval) bool { return i.Upto <= from || i.From >= upto })
}

// Closed agrees with the clock around every jump of every zone.
func TestClosedAgreesWithZoneClock(t *testing.T) {
	t.Parallel()
	h, err := ParseHours([]string{"22:00-08:00", "Sa-Su 01:30-02:30", "Su 00:00-10:05", "Mo 02:00-03:00", "We-Fr 23:30-00:00", "12:00-12:05"})
	must(t, err)
	n := 0
	for name, in := range zones(t) {
		for _, at := range jumps(in) {
			from, upto := at.Unix()-36*60*60, at.Unix()+36*60*60
			got, want := h.Closed(in, from, upto), closedByClock(h, in, from, upto)
			if n++; !slices.Equal(got, want) {
				t.Fatalf("%s around %s:\n%s, want\n%s", name, at, told(got, in), told(want, in))
			}
		}
	}
	t.Logf("%d jumps", n)
}

func told(all []Interval, in *time.Location) string {
	var texts []string
	for _, i := range all {
		texts = append(texts, time.Unix(i.From, 0).In(in).Format(time.RFC3339)+" to "+time.Unix(i.Upto, 0).In(in).Format(time.RFC3339))
	}
	return strings.Join(texts, "\n")
}

func unix(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	must(t, err)
	return at.Unix()
}

// Each user's quiet hours end at a different time within the spread, on each day at a new one, and
// at least half of the open time remains.
func TestSpreadDelaysEachUserDifferently(t *testing.T) {
	t.Parallel()
	const hour, users = int64(3600), 10_000
	closed := []Interval{{0, 8 * hour}, {8*hour + 100, 9 * hour}, {30 * hour, 31 * hour}}
	later, places := make([]int64, 60), map[int64]bool{}
	for u := range users {
		got := Spread(closed, "shop", fmt.Sprint("u-", u), 60)
		if again := Spread(closed, "shop", fmt.Sprint("u-", u), 60); !slices.Equal(got, again) {
			t.Fatal("another spread for the same user")
		}
		first, second := got[0].Upto-8*hour, got[1].Upto-9*hour
		if first < 0 || first >= 50 || second < 0 || second >= 60 || got[2] != closed[2] || got[0].From != 0 {
			t.Fatalf("user %d: %v", u, got)
		}
		later[second]++
		places[first*60+second] = true
	}
	for second, n := range later {
		if mean := int64(users / 60); n > 2*mean || n < mean/2 {
			t.Errorf("%d of %d users after %d s", n, users, second)
		}
	}
	if len(places) < 2000 {
		t.Errorf("the days' instants go together: %d pairs", len(places))
	}
	if got := Spread(closed, "shop", "ada", 0); !slices.Equal(got, closed) {
		t.Errorf("without a spread %v", got)
	}
	if slices.Equal(Spread(closed, "shop", "ada", 600), Spread(closed, "shop", "bob", 600)) || closed[0].Upto != 8*hour {
		t.Error("two users' are the same, or what was given has changed")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
