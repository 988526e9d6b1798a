package throttle

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Timeline implements Limiter.
func (l *Redis) Timeline(ctx context.Context, r Request) (Timeline, error) {
	t := Timeline{Admissions: map[string][]Admission{}}
	if err := r.validate(); err != nil || len(r.Scopes) == 0 {
		return t, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	k := &l.user(&r).keys
	pipe := l.client.Pipeline()
	clock := pipe.Time(ctx)
	sent := map[string]*redis.ZSliceCmd{}
	waiting := map[string]*redis.ZSliceCmd{}
	for _, s := range r.Scopes {
		set, line := k.sent, k.booked
		if s.Name != General {
			set, line = k.catSent, k.line
		}
		sent[s.Name] = pipe.ZRevRangeWithScores(ctx, set, 0, TimelineEntries-1)
		waiting[s.Name] = pipe.ZRangeWithScores(ctx, line, 0, TimelineEntries-1)
	}
	l.trips.Add(1)
	if _, err := pipe.Exec(ctx); err != nil {
		return t, StoreError("timeline", err)
	}
	t.Now = clock.Val()
	for scope, cmd := range sent {
		entries := cmd.Val()
		admissions := make([]Admission, len(entries))
		for i, e := range entries {
			admissions[len(entries)-1-i] = Admission{ID: memberID(e.Member.(string)), At: time.UnixMicro(int64(e.Score))}
		}
		t.Admissions[scope] = admissions
	}
	for scope, cmd := range waiting {
		for _, e := range cmd.Val() {
			t.Bookings = append(t.Bookings, Booking{ID: e.Member.(string), Scope: scope, Slot: time.UnixMicro(int64(e.Score))})
		}
	}
	sortBookings(t.Bookings)
	return t, nil
}
