package console

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/golden"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// A timelineUser asks an in-memory limiter with its own clock.
type timelineUser struct {
	clock   atomic.Int64 // µs
	inspect *inspect.Inspector
	limiter *throttle.Memory
	limits  *limits.Policies
	name    string
	asked   int
}

func newTimelineUser(t *testing.T, client redis.UniversalClient, general throttle.Policy, categories map[string]throttle.Policy) *timelineUser {
	t.Helper()
	d := &timelineUser{limits: limits.New(general, categories), name: "ada"}
	d.clock.Store(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC).UnixMicro())
	limiter, err := throttle.NewMemory(throttle.Options{Horizon: 30 * 24 * time.Hour, Now: func() time.Time { return time.UnixMicro(d.clock.Load()) }})
	must(t, err)
	t.Cleanup(func() { _ = limiter.Close() })
	d.limiter = limiter
	d.inspect = inspect.New(client, store.NewRecords(client, "", 0), d.limiter, d.limits)
	return d
}

// ask asks the limiter to grant the next n notifications, one every interval.
func (d *timelineUser) ask(t *testing.T, n int, category string, every time.Duration) {
	for range n {
		d.asked++
		scopes := d.limits.Scopes("shop", d.name, category)
		if len(scopes) > 0 {
			r := throttle.Request{App: "shop", User: d.name, ID: fmt.Sprintf("order-%d", d.asked), Category: category, Scopes: scopes, Horizon: 3000 * time.Hour}
			_, err := d.limiter.Acquire(t.Context(), r)
			must(t, err)
		}
		d.clock.Add(every.Microseconds())
	}
}

func (d *timelineUser) timeline(t *testing.T) *inspect.Timeline {
	timeline, err := d.inspect.Timeline(t.Context(), "shop", d.name, nil)
	must(t, err)
	return timeline
}

func rates(gap time.Duration, rates ...throttle.Rate) throttle.Policy {
	return throttle.Policy{MinGap: gap, Rates: rates}
}

// The timeline's picture equals the recorded SVG.
func TestTimelinePictureMatchesRecordedSVG(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, &redis.Options{Addr: redistest.Miniredis(t).Addr()})
	shipped := rates(time.Second, throttle.Rate{Count: 10, Period: time.Minute}, throttle.Rate{Count: 100, Period: 24 * time.Hour})
	two := map[string]throttle.Policy{"marketing": rates(0, throttle.Rate{Count: 1, Period: 24 * time.Hour}), "code": {Exempt: true}}
	night := shipped
	night.Night.Zone = time.UTC
	var err error
	night.Quiet, err = quiet.ParseHours([]string{"19:00-08:00"})
	must(t, err)
	odd := "Grüße <b>日本</b> \u202e" + strings.Repeat("日", 20)
	type ask struct {
		n        int
		category string
		every    time.Duration
	}
	for name, of := range map[string]struct {
		general    throttle.Policy
		categories map[string]throttle.Policy
		user       string        // "" for ada
		span       time.Duration // 0 for the timeline's own
		asks       []ask
	}{
		"nobody":     {general: shipped, categories: two, span: time.Hour},
		"unlimited":  {categories: two, span: time.Minute},
		"rate":       {general: rates(0, throttle.Rate{Count: 10, Period: time.Hour}), asks: []ask{{14, "", 150 * time.Second}}},
		"categories": {general: shipped, categories: two, asks: []ask{{2, "marketing", 5 * time.Minute}, {13, "", 100 * time.Millisecond}}},
		"bins":       {general: rates(time.Second, throttle.Rate{Count: 1000, Period: 24 * time.Hour}), span: 10 * time.Minute, asks: []ask{{400, "", time.Second}, {300, "", 0}}},
		"night":      {general: night, categories: two, asks: []ask{{3, "", time.Minute}}},
		"names":      {general: shipped, categories: map[string]throttle.Policy{odd: rates(time.Hour)}, user: "a\u202e</title><script>", asks: []ask{{2, odd, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newTimelineUser(t, client, of.general, of.categories)
			d.name = cmp.Or(of.user, d.name)
			for _, a := range of.asks {
				d.ask(t, a.n, a.category, a.every)
			}
			timeline := d.timeline(t)
			switch name {
			case "unlimited":
				timeline.Scopes, timeline.Now = timeline.Scopes[:2], time.UnixMicro(d.clock.Load()).UTC() // scopes without limits set no Now
			case "categories":
				timeline.Bookings[1].Critical = true
			}
			span := of.span
			if span == 0 {
				span = autoSpan(timeline)
			}
			var b bytes.Buffer
			must(t, pages["user"].ExecuteTemplate(&b, "picture", drawTimeline(timeline, span, func(id string) bool { return id == "order-3" })))
			golden.Match(t, filepath.Join("testdata", "pictures", name+".svg"), b.String())
		})
	}
}

// The sums in explanations are correct to the last digit shown.
func TestCauseText(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after, slot time.Duration
		period      time.Duration
		want        string
	}{
		{-3413 * time.Second, 187 * time.Second, time.Hour, "14:03:07 = 13:03:07 order-17 + 1h"},
		{-3412001 * time.Millisecond, 188001 * time.Millisecond, time.Hour, "14:03:08.001 = 13:03:07.999 order-17 + 1h + 2ms"},
		{-700 * time.Millisecond, 303 * time.Millisecond, time.Second, "14:00:00.303 = 13:59:59.300 order-17 + 1s + 3ms"},
		{-time.Hour, 23 * time.Hour, 24 * time.Hour, "Nov 21 13:00:00 = 13:00:00 order-17 + 24h"},
		{-time.Minute, time.Minute, time.Minute, "14:01:00, behind others, after 13:59:00 order-17 + 1m"},
		{-time.Minute, time.Second, time.Hour, "14:00:01, to be put off until 13:59:00 order-17 + 1h"},
	} {
		w := &inspect.Waiter{Booking: throttle.Booking{Slot: now.Add(c.slot), After: throttle.Entry{ID: "order-17", At: now.Add(c.after)}}}
		if got := causeText(w, c.period, now).String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
