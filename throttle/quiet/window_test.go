package quiet

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Window{
		"22:00-08:00":             {everyDay, 22 * 60, 8 * 60},
		"00:00-24:00":             {everyDay, 0, day},
		"Sa-Su 22:00-10:00":       {1<<6 | 1<<0, 22 * 60, 10 * 60},
		"Mo,We,Fr 12:30-13:00":    {1<<1 | 1<<3 | 1<<5, 12*60 + 30, 13 * 60},
		"Fr-Mo 23:59-00:00":       {1<<5 | 1<<6 | 1<<0 | 1<<1, day - 1, 0},
		"Mo-Fr,Su 00:00-00:01":    {everyDay &^ (1 << 6), 0, 1},
		"Tu-Mo 01:00-02:00":       {everyDay, 60, 120},
		"Su 00:00-24:00":          {1, 0, day},
		"Th-Th 08:00-07:59":       {1 << 4, 8 * 60, 8*60 - 1},
		"Mo,Mo,Mo-Tu 08:00-09:00": {1<<1 | 1<<2, 8 * 60, 9 * 60},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := Parse(got.String()); err != nil || again != want {
			t.Errorf("%q is said as %q: %+v, %v", text, got, again, err)
		}
	}
	if got := (Window{1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6, 60, 120}).String(); got != "Mo-We,Fr,Sa 01:00-02:00" {
		t.Error(got)
	}
	for text, problem := range map[string]string{
		"22:00": "want [DAYS ]HH", "25:00-08:00": "want", "8-10": "want", "": "want", "24:00-08:00": "want", "22:60-08:00": "want", "22:00-24:01": "want",
		"22:00 -08:00": "want", "mo 22:00-08:00": "want", "Mo-: 22:00-08:00": "want", "Mo, 22:00-08:00": "want", "-Mo 22:00-08:00": "want", " 22:00-08:00": "want",
		"Mo-Fr  22:00-08:00": "want", "+1:00-02:00": "want", "22:00-22:00": "is empty", "Su 00:00-00:00": "is empty", strings.Repeat("Mo,", 500) + " 1": "…\": want",
	} {
		if w, err := Parse(text); err == nil || !strings.Contains(err.Error(), problem) || len(err.Error()) > 140 {
			t.Errorf("%q: %+v, %v", text, w, err)
		}
	}
}

func TestParseHours(t *testing.T) {
	t.Parallel()
	if h, err := ParseHours([]string{"22:00-08:00", "Sa-Su 22:00-10:00"}); err != nil || h.String() != "22:00-08:00, Sa,Su 22:00-10:00" {
		t.Errorf("%s, %v", h, err)
	}
	if h, err := ParseHours(nil); err != nil || h == nil || len(h) > 0 || len(h.Closed(time.UTC, 0, utcDay)) > 0 {
		t.Errorf("none: %#v, %v", h, err)
	}
	all := make([]string, 0, 17)
	for i := range 17 {
		all = append(all, Window{everyDay, i, i + 1}.String())
	}
	if h, err := ParseHours(all[:16]); err != nil || len(h) != 16 {
		t.Errorf("%s, %v", h, err)
	}
	for problem, texts := range map[string][]string{
		"there are 17 windows of quiet hours; at most 16 are allowed":    all,
		"there are 99999 windows of quiet hours; at most 16 are allowed": slices.Concat(all[:16], slices.Repeat([]string{"10:00-11:00"}, 99983)),
		`quiet_hours "10:00-11:00" is there twice`:                       {"10:00-11:00", "12:00-13:00", "10:00-11:00"},
		`quiet_hours "x": want`:                                          {"10:00-11:00", "x"},
		"quiet_hours leave no time to send: pause the category instead":  {"00:00-12:00", "12:00-24:00"},
	} {
		if h, err := ParseHours(texts); err == nil || !strings.HasPrefix(err.Error(), problem) {
			t.Errorf("%.60q: %s, %v", texts, h, err)
		}
	}
	if got := (Hours{{everyDay, 22 * 60, 8 * 60}, {1 << 6, 8 * 60, 20 * 60}}).LongestOpen(); got != 14*time.Hour {
		t.Error(got)
	}
	if got := (Hours{{1 << 0, 22 * 60, 8 * 60}}).LongestOpen(); got < (6*24+14)*time.Hour {
		t.Error(got)
	}
}
