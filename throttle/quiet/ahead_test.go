package quiet

import (
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
)

const utcDay = 24 * 60 * 60

// The intervals of consecutive days agree where they overlap, and Until agrees with them.
func TestAheadAndUntilAgreeAcrossDays(t *testing.T) {
	t.Parallel()
	h, err := ParseHours([]string{"22:00-08:00", "Sa 12:00-18:00"})
	must(t, err)
	for _, name := range []string{"Europe/Berlin", "Pacific/Kiritimati", "America/New_York", "Asia/Tokyo"} {
		in, err := zone.Load(name)
		must(t, err)
		n := Night{Spread: 2 * time.Hour}
		for day := unix(t, "2026-10-20T00:00:00Z"); day < unix(t, "2026-11-10T00:00:00Z"); day += utcDay {
			today, next := h.Ahead(in, n, "shop", "ada", day+utcDay-1), h.Ahead(in, n, "shop", "ada", day+utcDay)
			if again := h.Ahead(in, n, "shop", "ada", day); !slices.Equal(again, today) {
				t.Fatalf("%s: %v, and on the same day %v", name, again, today)
			}
			over := slices.DeleteFunc(slices.Clone(today), func(i Interval) bool { return i.Upto <= day+utcDay })
			if !slices.Equal(over, next[:len(over)]) {
				t.Fatalf("%s: after midnight %v, before %v", name, next, over)
			}
			if last := next[len(next)-1]; last.From < day+9*utcDay {
				t.Errorf("%s: the last begins at %d, want one nine days ahead of %d", name, last.From, day)
			}
			for at := day; at < day+utcDay; at += 599 {
				want := int64(0)
				for _, i := range slices.Backward(today) {
					if i.From <= at+1 && at < i.Upto {
						want = i.Upto
					}
				}
				if got := h.Until(in, n, "shop", "ada", at, at+1); got != want {
					t.Fatalf("%s: at %d until %d, want %d of %v", name, at, got, want, today)
				}
			}
		}
	}
}

// Until allocates nothing outside quiet hours.
func TestUntilAllocatesNothing(t *testing.T) {
	h, err := ParseHours([]string{"22:00-08:00"})
	must(t, err)
	at, n := unix(t, "2026-11-25T12:00:00Z"), Night{Spread: time.Hour}
	if got := testing.AllocsPerRun(100, func() { h.Until(time.UTC, n, "shop", "ada", at, at+1) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
	if got := h.Until(time.UTC, n, "shop", "ada", at, at+1); got != 0 {
		t.Errorf("until %d at noon", got)
	}
}
