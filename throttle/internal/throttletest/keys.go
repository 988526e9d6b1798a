package throttletest

import (
	"fmt"
	"strings"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// hostile are names that, if not escaped, would end a hash tag, collide with another key or break
// a protocol.
var hostile = []string{
	"a", "b", "a/b", "b/a", "a:b", "a}", "{a}", "}{", "a:sent", "sent", "booked", "line:a", "sent:a",
	"a b", " ", "%", "%41", "%2F", "A", "~a", "#a", "a\nb", "a\r\n", "\x00", "\x00a", "é", "e\u0301", "日本", "🔔",
	"*", "?", "[a]", "-1", "+inf", "(1", strings.Repeat("x", 128), strings.Repeat("x", 127) + "y", strings.Repeat("{", 128),
}

// namesDoNotMix: apps, users, categories and notifications never share state, whatever their names.
func namesDoNotMix(s *stage) {
	prefix := s.user()
	once := policy(0, rate(1, time.Hour))
	asked := 0
	admitOnce := func(r throttle.Request, what string) {
		s.Helper()
		asked++
		r.Horizon = time.Duration(asked%2) * 48 * time.Hour
		d := s.acquire(s, r)
		if d.Status != throttle.Granted {
			s.Fatalf("%s %+v is not its own: %+v", what, r, d)
		}
		r.ID += "'"
		if d := s.acquire(s, r); d.Status == throttle.Granted {
			s.Fatalf("%s %+v is admitted twice: %+v", what, r, d)
		}
	}
	for _, name := range hostile {
		admitOnce(throttle.Request{User: prefix + name, ID: "n", Scopes: scopes(once, "", throttle.Policy{})}, "user")
		for _, app := range hostile[:6] {
			admitOnce(throttle.Request{App: prefix + app, User: name, ID: "n", Scopes: scopes(once, "", throttle.Policy{})}, "app and user")
		}
		if name != throttle.General {
			admitOnce(throttle.Request{App: prefix, User: "categories", ID: "n" + name, Scopes: []throttle.Scope{{Name: name, Policy: once}}}, "category")
		}
	}
	r := throttle.Request{App: prefix, User: "notifications", Scopes: scopes(policy(time.Second), "c", policy(0)), Horizon: 1000 * time.Hour}
	for i, name := range hostile {
		r.ID = name
		if d := s.acquire(s, r); d.Status == throttle.Granted != (i == 0) {
			s.Fatalf("notification %q: %+v", name, d)
		}
	}
	bookings := s.timeline(s, r).Bookings
	if len(bookings) != len(hostile)-1 {
		s.Fatalf("%d of %d notifications wait", len(bookings), len(hostile)-1)
	}
	for i, b := range bookings {
		if b.ID != hostile[i+1] {
			s.Errorf("the %d-th booking is of %q, want %q", i, b.ID, hostile[i+1])
		}
	}
}

// busy gives some users admissions, slots and refusals of all kinds.
func (s *stage) busy(users int) {
	for range users {
		user := s.user()
		for i := range 24 {
			r := throttle.Request{User: user, ID: fmt.Sprint("n", i), Horizon: time.Duration(i%3) * time.Hour,
				Scopes: scopes(policy(time.Second, rate(5, time.Minute)), []string{"", "a", "b"}[i%3], policy(0, rate(2, time.Minute)))}
			if i%6 == 1 {
				r.Scopes = r.Scopes[1:]
			}
			s.acquire(s, r)
			if i%5 == 4 {
				s.cancel(s, r)
			}
			s.pass(200 * time.Millisecond)
		}
	}
}

// everythingExpires: every key has an expiry.
func everythingExpires(s *stage) {
	s.busy(10)
	if lasting := s.Lasting(); len(lasting) > 0 {
		s.Errorf("there is no expiry on %q", lasting)
	}
}
