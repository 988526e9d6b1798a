package throttle

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/throttle/quiet"
)

// With the store unavailable and on_outage open, quiet hours still hold.
func TestQuietHoursHoldDuringOutage(t *testing.T) {
	t.Parallel()
	policy := Policy{Quiet: hoursOf(t, "22:00-08:00"), Night: quiet.Night{Zone: zoneOf(t, "Europe/Berlin")}}
	tokyo := zoneOf(t, "Asia/Tokyo")
	synctest.Test(t, func(t *testing.T) { // the time is 2000-01-01T01:00 in Berlin
		s := new(scriptedStore)
		s.set(storeRefuses)
		o := WithOutage(s, Open, OutageOptions{})
		for _, c := range []struct {
			what   string
			change func(*Request)
			want   Status
		}{
			{"at night", func(*Request) {}, Deferred},
			{"passing", passing, Granted},
			{"in the morning of Tokyo", func(r *Request) { r.Zone = tokyo }, Granted},
			{"to its end", func(r *Request) { r.Horizon = time.Hour }, Refused},
		} {
			r := Request{User: "u", ID: "n", Scopes: []Scope{{General, policy}}, Horizon: 7 * time.Hour}
			c.change(&r)
			one, err1 := o.Acquire(t.Context(), r)
			all, err2 := o.AcquireAll(t.Context(), []Request{r, {User: "u", ID: "m", Scopes: r.Scopes}})
			if err1 != nil || err2 != nil || len(all) != 1 {
				t.Fatal(c.what, err1, err2)
			}
			for _, d := range []Decision{one, all[0]} {
				if held := d.Rule == QuietRule && d.Scope == General && d.Left == 7*time.Hour && d.Quiet.Equal(d.At); d.Status != c.want || !d.Unchecked || held != (c.want != Granted) {
					t.Errorf("%s: %+v", c.what, d)
				}
			}
		}
	})
}
