package words

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// Quiet hours in UTC name each instant once.
func TestNights(t *testing.T) {
	t.Parallel()
	night, err := quiet.Parse("22:00-08:00")
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for zone, want := range map[*time.Location]string{
		nil:      "quiet from 2026-11-27T22:00:00.000Z to 2026-11-28T08:00:00.000Z",
		time.UTC: "quiet from 2026-11-27T22:00:00.000Z to 2026-11-28T08:00:00.000Z",
		berlin:   "quiet from Fri 2026-11-27 22:00:00 to Sat 2026-11-28 08:00:00 in Europe/Berlin (2026-11-27T21:00:00.000Z to 2026-11-28T07:00:00.000Z)",
	} {
		p := throttle.Policy{Quiet: quiet.Hours{night}}
		p.Night.Zone = zone
		if got := Nights(p, "", "", now); len(got) != nightsShown || got[0].String() != want {
			t.Errorf("%v", got)
		}
	}
}
