package throttle

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// TestALongLineTakesTimeByItsLength counts the commands of the script: those who
// wait for the general limits and those who wait for their category's alternate,
// and looking at one of them must not lead past all the others.
func TestALongLineTakesTimeByItsLength(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	l := NewRedis(client, Options{Timeout: redistest.Patience})
	t.Cleanup(func() { _ = l.Close() })
	general := Scope{General, Policy{MinGap: time.Second, Rates: []Rate{{10, 15 * time.Second}, {100, 160 * time.Second}}}}
	category := Scope{"news", Policy{Rates: []Rate{{1, 3 * time.Second}}}}
	request := func(id string, scopes ...Scope) Request {
		return Request{User: "u", ID: id, Horizon: 24 * time.Hour, Scopes: scopes}
	}
	const each = 200
	for i := range each {
		for _, r := range []Request{request(fmt.Sprint("n", i), general, category), request(fmt.Sprint("g", i), general)} {
			if _, err := l.Acquire(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	raised := general
	raised.Policy.MinGap = 900 * time.Millisecond
	for what, do := range map[string]func() error{
		"a newcomer":   func() error { _, err := l.Acquire(ctx, request("new", general, category)); return err },
		"a cancel":     func() error { _, err := l.Cancel(ctx, request("g5", general)); return err },
		"a reschedule": func() error { _, err := l.Reschedule(ctx, request("", raised, category)); return err },
	} {
		before := commands(t, client)
		if err := do(); err != nil {
			t.Fatal(err)
		}
		const perEntry = 10
		if n := commands(t, client) - before; n > 2*each*perEntry {
			t.Errorf("%s behind %d who wait takes %d commands, want %d for each at most", what, 2*each, n, perEntry)
		}
	}
}

var calls = regexp.MustCompile(`calls=(\d+)`)

// commands is how many the server has executed, those of scripts included.
func commands(t *testing.T, client *redis.Client) int {
	t.Helper()
	stats, err := client.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, match := range calls.FindAllStringSubmatch(stats, -1) {
		n, err := strconv.Atoi(match[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// A slot that is not ours is nobody's, and keeps nobody from being looked at.
func TestALineWithAForeignSlot(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix()
	l := NewRedis(client, Options{Prefix: prefix, Timeout: redistest.Patience})
	t.Cleanup(func() { _ = l.Close() })
	r := Request{User: "u", Horizon: 24 * time.Hour, Scopes: []Scope{{General, Policy{MinGap: time.Hour}}}}
	for _, id := range []string{"goes", "waits"} {
		r.ID = id
		if _, err := l.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.ZAdd(t.Context(), prefix+":{u}:booked", redis.Z{Score: 1, Member: "none\tof ours"}).Err(); err != nil {
		t.Fatal(err)
	}
	line, err := l.Line(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if moves := line.Moves(line.Now); len(moves) != 1 || moves[0].ID != "waits" {
		t.Errorf("%+v", moves)
	}
}

// What a call costs Redis, where it finds nobody or little to do.
func TestWhatACallCosts(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	ctx := t.Context()
	l := NewRedis(client, Options{Timeout: redistest.Patience})
	t.Cleanup(func() { _ = l.Close() })
	general, day := Scope{General, Policy{MinGap: time.Second, Rates: []Rate{{5, time.Minute}}}}, 24*time.Hour
	request := func(user, id, category string) *Request {
		return &Request{User: user, ID: id, Category: category, Horizon: day, Scopes: []Scope{general}}
	}
	visit := func(op string, r *Request) {
		t.Helper()
		if _, err := l.visit(ctx, op, r, l.user(r), denial{}, ""); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		visit(opAcquire, request("many", fmt.Sprint("n", i), fmt.Sprint("c", i%2)))
	}
	for _, tt := range []struct {
		what, op string
		r        *Request
		most     int
	}{
		{"one that goes", opAcquire, request("one", "n", ""), 17},
		{"one that waits first", opAcquire, request("one", "m", ""), 37},
		{"a reschedule of nobody", opReschedule, request("nobody", "", ""), 13},
		{"one more", opAcquire, request("many", "m", "c0"), 54},
		{"a reschedule", opReschedule, request("many", "", "c0"), 26},
		{"a cancel", opCancel, request("many", "n7", "c1"), 57},
	} {
		before := commands(t, client)
		visit(tt.op, tt.r)
		if n := commands(t, client) - before; n > tt.most {
			t.Errorf("%s takes %d commands, want %d at most", tt.what, n, tt.most)
		}
	}
}
