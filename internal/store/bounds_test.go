package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// A letterbox is the only shard of its records, which limit the stored entries by store.Bounds.
type letterbox struct {
	*store.Shard
	t       *testing.T
	client  redis.UniversalClient
	records *store.Records
}

func newLetterbox(t *testing.T, client redis.UniversalClient, b store.Bounds) *letterbox {
	t.Helper()
	return (&letterbox{t: t, client: client, records: store.NewRecords(client, "acme", 0).WithShards(1)}).with(b)
}

// with returns the letterbox with new bounds.
func (s *letterbox) with(b store.Bounds) *letterbox {
	s.t.Helper()
	records := s.records.WithBounds(b)
	all, err := records.All(s.t.Context())
	must(s.t, err)
	return &letterbox{all[0], s.t, s.client, records}
}

func contents([]byte) (store.Contents, error) { return store.Contents{App: "shop", User: "u"}, nil }

// reject ends notifications of the app, each with a dead letter.
func (s *letterbox) reject(app string, job []byte, ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		must(s.t, s.Arrive(s.t.Context(), id, push.Default.Queue(), store.Facts{App: app, User: "u"}))
		letter := &store.Letter{ID: id, State: push.Rejected, Reason: "payload", Queue: push.Default.Queue(), Job: job}
		if first, err := s.Settle(s.t.Context(), id, &store.End{State: push.Rejected, App: app, Letter: letter}); err != nil || !first {
			s.t.Fatalf("%s: %t, %v", id, first, err)
		}
	}
}

func named(prefix string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s-%02d", prefix, i))
	}
	return ids
}

// kept returns the IDs of all dead letters.
func (s *letterbox) kept() (ids []string) {
	s.t.Helper()
	letters, _, err := s.records.LettersFrom(s.t.Context(), "", 1000)
	must(s.t, err)
	for _, l := range letters {
		ids = append(ids, l.ID)
	}
	slices.Sort(ids)
	return ids
}

func (s *letterbox) counts() store.Counts {
	s.t.Helper()
	counts, err := s.records.Counts(s.t.Context())
	must(s.t, err)
	return counts
}

func TestDeadLettersAreBoundedPerApp(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s, shop, mail := newLetterbox(t, client, store.Bounds{DeadLetters: 5}), named("shop", 12), named("mail", 2)
		s.reject("mail", nil, mail...)
		s.reject("shop", nil, shop...)
		if got, want := s.kept(), slices.Concat(mail, shop[7:]); !slices.Equal(got, want) {
			t.Errorf("kept %v, want %v", got, want)
		}
		counts := s.counts()
		if counts.Ended[push.Rejected] != 14 || counts.Waiting() != 0 || counts.Letters != 7 || counts.Dropped[store.Dropped{Kind: store.DeadLetters, App: "shop"}] != 7 || len(counts.Dropped) != 1 {
			t.Errorf("counts %+v", counts)
		}
		for i, id := range shop {
			life := client.PTTL(t.Context(), s.Key("id:"+id)).Val()
			if dropped := i < 7; dropped != (life > 0 && life <= 30*time.Second) {
				t.Errorf("the record of %s lasts %s", id, life)
			}
		}
		for _, act := range []error{
			s.records.Purge(t.Context(), store.Ref{ID: shop[0]}, contents),
			s.Requeue(t.Context(), &store.Letter{ID: shop[0], State: push.Rejected, Queue: push.Default.Queue()}, nil, nil, &store.Facts{App: "shop"}),
		} {
			if !errors.Is(act, store.ErrNoLetter) {
				t.Errorf("a dropped letter: %v", act)
			}
		}
	})
}

// A purged and a requeued dead letter make room for two new letters.
func TestDeadLetterBoundIgnoresRemovedLetters(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s, ids := newLetterbox(t, client, store.Bounds{DeadLetters: 5}), named("shop", 5)
		s.reject("shop", []byte("{}"), ids...)
		if err := s.records.Purge(t.Context(), store.Ref{ID: ids[1]}, contents); err != nil {
			t.Error(err)
		}
		letter, err := s.Letter(t.Context(), ids[2])
		if err == nil {
			err = s.Requeue(t.Context(), letter, []byte("{}"), nil, &store.Facts{App: "shop", User: "u"})
		}
		must(t, err)
		s.reject("shop", nil, "late-1", "late-2")
		want := []string{"late-1", "late-2", ids[0], ids[3], ids[4]}
		if got := s.kept(); !slices.Equal(got, want) || len(s.counts().Dropped) != 0 {
			t.Errorf("kept %v, want %v; dropped %v", got, want, s.counts().Dropped)
		}
		size := int64(0)
		for _, text := range client.HVals(t.Context(), s.Key("letters")).Val() {
			size += int64(len(text))
		}
		if counted, err := client.HGet(t.Context(), s.Key("counts"), "letter_bytes:shop").Int64(); err != nil || counted != size {
			t.Errorf("%d bytes are counted, %v; there are %d", counted, err, size)
		}
	})
}

// Unknown app names and unreadable jobs add no capacity.
func TestUnknownAppsAndMalformedJobsShareABound(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s := newLetterbox(t, client, store.Bounds{DeadLetters: 5, Outcomes: 10, Apps: map[string]bool{"shop": true}})
		s.reject("shop", nil, "known")
		for _, id := range named("invented", 8) {
			s.reject("app-of-"+id, nil, id)
		}
		malformed := named("malformed", 8)
		for _, id := range malformed {
			for range 2 { // the second time changes nothing
				must(t, s.SetAside(t.Context(), &store.Letter{ID: id, State: store.Malformed, Reason: "not_json"}))
			}
		}
		if got, want := s.kept(), slices.Concat([]string{"known"}, malformed[3:]); !slices.Equal(got, want) {
			t.Errorf("kept %v, want %v", got, want)
		}
		if counts := s.counts(); counts.Malformed != 8 || counts.Dropped[store.Dropped{Kind: store.DeadLetters}] != 11 {
			t.Errorf("counts %+v", counts)
		}
		for app, want := range map[string]int64{"shop": 1, "": 1, "app-of-invented-00": 0} {
			if got := client.Exists(t.Context(), s.Key("outcomes:"+app)).Val(); got != want {
				t.Errorf("%q: %d streams, want %d", app, got, want)
			}
		}
	})
}

func TestLargeDeadLettersAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s := newLetterbox(t, client, store.Bounds{DeadLetters: 10})
		s.reject("shop", make([]byte, 9_000), named("shop", 10)...) // 12,000 in base64, of 40,960
		if got := s.counts().Letters; got != 3 {
			t.Errorf("%d are kept, want 3", got)
		}
	})
}

// A record lasts no longer than the retention even if the producer's clock is ahead.
func TestRecordWithFutureTimeExpiresAfterRetention(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s := newLetterbox(t, client, store.Bounds{})
		must(t, client.HSet(t.Context(), s.Key("id:ahead"), "state", "waiting", "accepted", time.Now().AddDate(3, 0, 0).UnixMilli()).Err())
		s.reject("shop", nil, "ahead")
		if life := client.PTTL(t.Context(), s.Key("id:ahead")).Val(); life > store.DefaultRetention {
			t.Errorf("the record lasts %s", life)
		}
	})
}

// An app's reports displace reports of the same app only. A report counts as dropped if the webhook
// had not acknowledged it.
func TestReportsAreBoundedPerApp(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		const kept, group = 100, "webhook:shop"
		s := newLetterbox(t, client, store.Bounds{Outcomes: kept})
		tokens, outcomes := store.NewDeadTokens(store.NewRecords(client, "acme", 0).WithShards(1), kept), store.NewOutcomes(store.NewRecords(client, "acme", 0).WithShards(1))
		report := func(app string, n int) {
			t.Helper()
			for i := range n {
				id := fmt.Sprintf("%s-%d-%d", app, n, i)
				must(t, s.Arrive(t.Context(), id, push.Default.Queue(), store.Facts{App: app, User: "u"}))
				must(t, second(s.Settle(t.Context(), id, &store.End{State: push.Expired, App: app})))
				must(t, tokens.Add(t.Context(), store.DeadToken{App: app, User: "u", Token: id}))
			}
		}
		report("mail", 3)
		report("shop", 50)
		taken, err := tokens.Next(t.Context(), "shop", group, time.Hour, 30)
		if err == nil {
			err = tokens.Ack(t.Context(), "shop", group, taken[:20]...)
		}
		must(t, err)
		must(t, second(outcomes.Next(t.Context(), "shop", group, time.Hour, 1))) // its webhook has begun
		report("shop", 300)
		length := func(name string) int64 { return client.XLen(t.Context(), s.Key(name)).Val() }
		dropped := s.counts().Dropped
		for _, c := range []struct {
			what, stream string
			acknowledged int64
		}{{store.DeadTokenReports, "dead-tokens", 20}, {store.OutcomeReports, "outcomes", 0}} {
			left := length(c.stream + ":shop")
			got, want := dropped[store.Dropped{Kind: c.what, App: "shop"}], 350-left-c.acknowledged
			if left < kept || left >= kept+100 || got != want || length(c.stream+":mail") != 3 {
				t.Errorf("%s: %d are left, %d were dropped, want %d; %d of mail", c.what, left, got, want, length(c.stream+":mail"))
			}
		}
		if len(dropped) != 2 {
			t.Errorf("dropped %v", dropped)
		}
	})
}

// A report is the oldest until it is acknowledged, whether or not a reader has taken it.
func TestOldestReportStaysOldestUntilAcknowledged(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		newLetterbox(t, client, store.Bounds{})
		tokens, ctx := store.NewDeadTokens(store.NewRecords(client, "acme", 0).WithShards(1), 0), context.Background()
		some := func(step string, want bool) {
			t.Helper()
			if at, err := tokens.Oldest(ctx, "shop", "g"); err != nil || at.IsZero() == want {
				t.Errorf("%s: %s, %v", step, at, err)
			}
		}
		next := func() []store.DeadToken {
			t.Helper()
			all, err := tokens.Next(ctx, "shop", "g", time.Hour, 10)
			must(t, err)
			return all
		}
		add := func() {
			t.Helper()
			must(t, tokens.Add(ctx, store.DeadToken{App: "shop", Token: "t"}))
		}
		some("no report", false)
		add()
		some("no reader", true)
		taken := next()
		some("taken", true)
		must(t, tokens.Ack(ctx, "shop", "g", taken...))
		some("acknowledged", false)
		add()
		some("not taken yet", true)
	})
}

// If an app reuses the ID of another app's letter, the letter belongs only to the later app.
func TestReusedIDLetterBelongsToLaterApp(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s := newLetterbox(t, client, store.Bounds{DeadLetters: 2, Apps: map[string]bool{"shop": true, "kiosk": true}})
		s.reject("shop", []byte("{}"), "same")
		must(t, client.Del(t.Context(), s.Key("id:same")).Err()) // its record has expired
		s.reject("kiosk", []byte("{}"), "same")
		s.reject("shop", []byte("{}"), named("shop", 5)...)
		if kept, err := client.HExists(t.Context(), s.Key("letters"), "same").Result(); err != nil || !kept {
			t.Errorf("another app has deleted it: %v", err)
		}
		for app, want := range map[string]int64{"shop": 2, "kiosk": 1} {
			if n := client.ZCard(t.Context(), s.Key("letters:"+app)).Val(); n != want {
				t.Errorf("%s has %d letters, want %d", app, n, want)
			}
		}
	})
}
