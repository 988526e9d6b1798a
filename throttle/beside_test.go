package throttle

import (
	"fmt"
	"testing"
	"time"
)

// Who waits further away than any general limit reaches costs those of other
// categories one call of the script, not one each; those of its own stay behind it.
func TestBesideOneWhoWaitsFarAway(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t).limiter // whose clock no slow machine holds up
	general := Scope{General, Policy{Rates: []Rate{{1000, time.Minute}}}}
	news := Scope{"news", Policy{Rates: []Rate{{1, 20 * time.Hour}}}}
	ask := func(id string, want Status, trips int64, scopes ...Scope) {
		t.Helper()
		before := l.RoundTrips()
		r := Request{User: "u", ID: id, Horizon: 100 * time.Hour, Scopes: scopes}
		if len(scopes) > 1 {
			r.Category = scopes[1].Name
		}
		d, err := l.Acquire(t.Context(), r)
		if n := l.RoundTrips() - before; err != nil || d.Status != want || n > trips {
			t.Fatalf("%s: %+v, %v, %d round trips; want %s by %d", id, d, err, n, want, trips)
		}
	}
	ask("n1", Granted, 2, general, news) // and the expiry of the new sets
	ask("n2", Deferred, 2, general, news)
	ask("o0", Granted, 2, general)
	for i := range 5 {
		ask(fmt.Sprint("o", i+1), Granted, 1, general)
	}
	l.users.Purge() // nothing is known of the user any more
	ask("n3", Deferred, 2, general, news)
	l.users.Purge()
	news.Policy.Rates[0].Count = 9
	d, err := l.Acquire(t.Context(), Request{User: "u", ID: "n4", Category: "news", Horizon: 100 * time.Hour, Scopes: []Scope{general, news}})
	if err != nil || len(d.Moved) != 2 {
		t.Errorf("n4 overtakes those of its category, whose limit was raised: %+v, %v", d, err)
	}
}
