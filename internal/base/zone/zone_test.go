package zone

import (
	"strings"
	"testing"
	"time"
)

// First and Past of a time that occurs twice are its two instants; of a skipped time, the jump.
func TestFirstAndPastOfRepeatedAndSkippedTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone        string
		local       Local
		first, past string
	}{
		{"UTC", At(2026, time.November, 25, 9*60), "2026-11-25T09:00:00Z", "2026-11-25T09:00:00Z"},
		{"Europe/Berlin", At(2026, time.November, 25, 9*60), "2026-11-25T08:00:00Z", "2026-11-25T08:00:00Z"},
		{"Europe/Berlin", At(2027, time.March, 28, 2*60+30), "2027-03-28T01:00:00Z", "2027-03-28T01:00:00Z"},
		{"Europe/Berlin", At(2026, time.October, 25, 2*60+30), "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"Europe/Berlin", At(2026, time.October, 25, 2*60), "2026-10-25T00:00:00Z", "2026-10-25T00:00:00Z"},
		{"Europe/Berlin", At(2026, time.October, 25, 3*60), "2026-10-25T02:00:00Z", "2026-10-25T02:00:00Z"},
		{"Australia/Lord_Howe", At(2026, time.April, 5, 105), "2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z"},
		{"America/Sao_Paulo", At(2018, time.November, 4, 0), "2018-11-04T03:00:00Z", "2018-11-04T03:00:00Z"},
		{"Pacific/Apia", At(2011, time.December, 30, 9*60), "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"Pacific/Apia", At(2011, time.December, 31, 9*60), "2011-12-30T19:00:00Z", "2011-12-30T19:00:00Z"},
		{"Pacific/Kiritimati", At(2026, time.November, 31, 24*60), "2026-12-01T10:00:00Z", "2026-12-01T10:00:00Z"},
		{"Europe/Berlin", At(2040, time.December, 31, 12*60), "2040-12-31T11:00:00Z", "2040-12-31T11:00:00Z"},
		{"America/New_York", At(2044, time.December, 31, 24*60), "2045-01-01T05:00:00Z", "2045-01-01T05:00:00Z"},
		{"Australia/Sydney", At(2028, time.December, 31, 0), "2028-12-30T13:00:00Z", "2028-12-30T13:00:00Z"},
		{"Etc/GMT+12", At(1, time.January, 1, 0), "0001-01-01T12:00:00Z", "0001-01-01T12:00:00Z"},
	} {
		in, err := Load(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		for what, got := range map[string]int64{c.first: c.local.First(in), c.past: c.local.Past(in)} {
			if at := time.Unix(got, 0).UTC().Format(time.RFC3339); at != what {
				t.Errorf("%d in %s: %s, want %s", c.local, c.zone, at, what)
			}
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	for range 2 {
		if in, err := Load("Asia/Tokyo"); err != nil || in.String() != "Asia/Tokyo" {
			t.Errorf("%v, %v", in, err)
		}
	}
	if got := Shown(time.Date(2026, time.November, 25, 9, 0, 59, 999, time.FixedZone("", -3600))); got != At(2026, time.November, 25, 9*60)+59 {
		t.Error(got)
	}
	for _, name := range []string{"", "Local", "Mars/Olympus", "+02:00", "Europe//Berlin", "Europe/./Berlin", "Europe/Berlin/", "./Europe/Berlin", "localtime", "posixrules", "Factory", "right/Europe/Berlin", "../etc/passwd", "/etc/localtime", strings.Repeat("x", 1000), "Europe/Berlin\x00"} {
		in, err := Load(name)
		if err != ErrUnknown {
			t.Errorf("%q: %v, %v", name, in, err)
		}
	}
}

// A process in any zone gets the same results.
func TestLoadReturnsProcessZone(t *testing.T) {
	t.Parallel()
	own := time.Local.String()
	if own == "Local" {
		own = "UTC" // the system has no named zone
	}
	if in, err := Load(own); err != nil || in.String() != own {
		t.Errorf("%v, %v", in, err)
	}
}
