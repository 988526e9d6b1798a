package auditlog

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle/limits"
)

// all returns the entries before a cursor; most bounds their number.
func (l *Log) all(test *testing.T, cursor string, most int) (list []Entry) {
	test.Helper()
	must(test, l.Before(test.Context(), cursor, func(e Entry) bool {
		list = append(list, e)
		return len(list) < most
	}))
	return list
}

// plant writes n entries with the instant at.
func (l *Log) plant(test *testing.T, at time.Time, n int) {
	test.Helper()
	_, err := l.client.Pipelined(test.Context(), func(p redis.Pipeliner) error {
		for i := range n {
			p.XAdd(test.Context(), &redis.XAddArgs{Stream: l.key, ID: fmt.Sprintf("%d-%d", at.UnixMilli(), i), Values: []string{"entry", `{"by":"old","action":"pause","count":` + strconv.Itoa(i) + `}`}})
		}
		return nil
	})
	must(test, err)
}

func (l *Log) length(test *testing.T) int64 {
	test.Helper()
	n, err := l.client.XLen(test.Context(), l.key).Result()
	must(test, err)
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An entry is read as it was written, the newest first, page by page.
func TestEntriesAreReadNewestFirst(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		log := New(client, prefix)
		if got := log.all(t, "", 10); len(got) != 0 {
			t.Errorf("of nothing: %+v", got)
		}
		until := time.Date(2026, 12, 24, 20, 0, 0, 0, time.UTC)
		written := []Entry{
			{By: "ada", Action: SetLimit, Level: limits.Level{App: "shop", User: "ẞ\x00\"", Category: "news"}, Count: 1},
			{By: "eve", Action: Pause, Level: limits.Level{Category: "news"}, Platform: "apns", Count: 1, Reason: "a reason", Until: until},
			{By: "eve", Action: Cancel, Apps: []string{"mail", "shop"}, Count: 7},
			{By: "bob", Action: Purge, ID: "one", Count: 1},
		}
		began := time.Now().Add(-time.Minute)
		for _, e := range written {
			must(t, log.Add(t.Context(), e))
		}
		whole := log.all(t, "", 10)
		if len(whole) != len(written) {
			t.Fatalf("%+v", whole)
		}
		for i, e := range whole {
			if e.At.Before(began) || time.Since(e.At) < -time.Minute || e.Cursor == "" {
				t.Errorf("at %v, %q", e.At, e.Cursor)
			}
			e.At, e.Cursor = time.Time{}, ""
			if want := written[len(written)-1-i]; fmt.Sprintf("%+v", e) != fmt.Sprintf("%+v", want) {
				t.Errorf("%+v, want %+v", e, want)
			}
		}
		first := log.all(t, "", 3)
		if rest := log.all(t, first[2].Cursor, 3); len(first) != 3 || len(rest) != 1 || rest[0].Cursor != whole[3].Cursor {
			t.Errorf("%+v, then %+v", first, rest)
		}
		for _, bad := range []string{"x", "-", "0-0", "0-1", "1", "1-", "-1", "(1-1", "1-1 ", "12345678901234567-1", "+"} {
			if err := log.Before(t.Context(), bad, func(Entry) bool { return true }); !errors.Is(err, ErrCursor) {
				t.Errorf("%q: %v", bad, err)
			}
		}
		if got := log.all(t, "1-0", 3); len(got) != 0 {
			t.Errorf("before the first: %+v", got)
		}
	})
}

// The log keeps about Kept entries, and none older than KeptFor.
func TestOldEntriesArePruned(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		log := New(client, prefix)
		log.plant(t, time.Now().Add(-KeptFor-time.Hour), 3)
		log.plant(t, time.Now().Add(-KeptFor+time.Hour), 2)
		if got := log.all(t, "", 10); len(got) != 2 {
			t.Errorf("one too old is shown: %+v", got)
		}
		must(t, log.Add(t.Context(), Entry{By: "ada", Action: Resume}))
		if n := log.length(t); n != 3 {
			t.Errorf("%d are kept", n)
		}
		log.plant(t, time.Now().Add(time.Second), Kept+500)
		must(t, log.Add(t.Context(), Entry{By: "ada", Action: Resume}))
		if n := log.length(t); n < Kept || n > Kept+200 {
			t.Errorf("%d are kept", n)
		}
		got := log.all(t, "", 2*Kept)
		if len(got) < Kept || got[0].By != "ada" || !slices.IsSortedFunc(got, func(a, b Entry) int { return b.At.Compare(a.At) }) {
			t.Errorf("%d are shown", len(got))
		}
	})
}

// An unreadable entry of another version is skipped.
func TestUnreadableEntryIsSkipped(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	log := New(client, redistest.Prefix())
	for _, values := range [][]string{{"entry", "{"}, {"other", "{}"}, {"entry", `{"by":"ada","action":"another","count":1,"more":true}`}} {
		must(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: log.key, Values: values}).Err())
	}
	if got := log.all(t, "", 10); len(got) != 1 || got[0].Action != "another" {
		t.Errorf("%+v", got)
	}
}
