package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// digests are notifications of one user, with the same digest key.
type digests struct {
	t    *testing.T
	at   *store.Shard
	user string // prefix of the IDs
}

func newDigests(t *testing.T, records *store.Records, user string) *digests {
	t.Helper()
	at, err := records.Of(t.Context(), "shop", user)
	must(t, err)
	d := &digests{t, at, user}
	for x := range few {
		must(t, at.Arrive(t.Context(), d.id(x), "default", store.Facts{App: "shop", User: user, Category: "likes"}))
	}
	return d
}

func (d *digests) id(x int) string { return fmt.Sprint(d.user, "-", x) }

// step executes a step of a notification with an unclaimed job, which the claim "" owns.
func (d *digests) step(op store.DigestOp, x int, claim string, most int) store.Part {
	d.t.Helper()
	p, err := d.at.Digest(d.t.Context(), op, &store.Joiner{
		App: "shop", User: d.user, Category: "likes", Key: "post 4711/ü", Job: &store.Job{ID: d.id(x), Queue: push.Default.Queue(), Claim: claim},
		Accepted: time.UnixMicro(int64(x + 1)), Title: fmt.Sprint("title ", x), JSON: fmt.Append(nil, x),
		Targets: []store.TargetOutcome{{Platform: push.FCM}}, Wait: time.Hour, Most: most,
	})
	must(d.t, err)
	return p
}

func (d *digests) join(x, most int) store.Part { return d.step(store.JoinDigest, x, "", most) }
func (d *digests) wait(x, most int) store.Part { return d.step(store.WaitInDigest, x, "", most) }

// few is how many notifications each user has.
const few = 4

// A notification joins the digest of a notification that waits. It joins none if it has had a slot or
// carries others, or if its job is in another claim; nor if the digest is closed or full, or its carrier
// has ended.
func TestOnlyNewNotificationJoinsOpenDigest(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		const most = 3
		records := store.NewRecords(client, prefix, 0).WithShards(1).WithBounds(store.Bounds{Outcomes: 100})
		closes := func(d *digests, x int) { d.step(store.CloseDigest, x, "", most) }
		for name, c := range map[string]struct {
			before func(d *digests) // between the wait of 0 and the join of 2
			joins  bool
		}{
			"open":                  {func(*digests) {}, true},
			"closed":                {func(d *digests) { closes(d, 0) }, false},
			"carrier checked again": {func(d *digests) { d.join(0, most) }, false},
			"opened again":          {func(d *digests) { closes(d, 0); d.wait(0, most) }, true},
			"opened by another claim": {func(d *digests) {
				closes(d, 0)
				d.step(store.WaitInDigest, 1, "lost", most)
			}, false},
			"with room": {func(d *digests) { d.join(1, most) }, true},
			"full":      {func(d *digests) { d.join(1, most); d.join(3, most) }, false},
			"carrier ended": {func(d *digests) {
				must(t, second(d.at.Settle(t.Context(), d.id(0), &store.End{State: push.Delivered})))
			}, false},
			"slot": {func(d *digests) { must(t, client.HSet(t.Context(), d.at.Key("id:"+d.id(2)), "until", 1).Err()) }, false},
			"carries another": {func(d *digests) {
				closes(d, 0)
				d.wait(2, most)
				d.join(1, most)
				closes(d, 2)
				d.wait(0, most)
			}, false},
		} {
			d := newDigests(t, records, name)
			d.wait(0, most)
			c.before(d)
			if p := d.step(store.JoinDigest, 2, "lost", most); p.Into != "" {
				t.Errorf("%s: joined by a job in another claim: %+v", name, p)
			}
			if p := d.join(2, most); (p.Into == d.id(0)) != c.joins || p.Ended {
				t.Errorf("%s: %+v, want it to join: %t", name, p, c.joins)
			}
			if p := d.join(2, most); p.Ended != c.joins {
				t.Errorf("%s: %+v, want it ended: %t", name, p, c.joins)
			}
		}
	})
}

// A carrier keeps the titles of the first two joined notifications and the JSON of the newest by
// acceptance, until it ends. Records and outcomes name the carrier.
func TestDigestKeepsTitlesAndNewest(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		records := store.NewRecords(client, prefix, 0).WithShards(1).WithBounds(store.Bounds{Outcomes: 100})
		d := newDigests(t, records, "u")
		if p := d.join(1, few); p.Joined != nil || p.Into != "" {
			t.Errorf("nobody waits: %+v", p)
		}
		d.wait(1, few)
		if p := d.join(2, few); p.Into != d.id(1) {
			t.Errorf("%+v", p)
		}
		if p := d.wait(0, few); p.Into != d.id(1) {
			t.Errorf("%+v", p)
		}
		for range 2 {
			p := d.join(1, few)
			if !slices.Equal(p.Joined, []string{d.id(2), d.id(0)}) || !slices.Equal(p.Titles, []string{"title 2", "title 0"}) ||
				string(p.Newest) != "2" || !p.NewestAt.Equal(time.UnixMicro(3)) {
				t.Errorf("%+v", p)
			}
		}
		record, err := d.at.Lookup(t.Context(), d.id(2))
		if err != nil || record.State != push.Digested || record.Into != d.id(1) {
			t.Errorf("%+v, %v", record, err)
		}
		if record, err = d.at.Lookup(t.Context(), d.id(1)); err != nil || record.State != push.Waiting || record.Carried != 2 {
			t.Errorf("%+v, %v", record, err)
		}
		counts, err := records.Counts(t.Context())
		if err != nil || counts.Ended[push.Digested] != 2 || counts.Waiting() != few-2 {
			t.Errorf("%+v, %v", counts, err)
		}
		events, err := store.NewOutcomes(store.NewRecords(client, prefix, 0).WithShards(1)).Next(t.Context(), "shop", "g", time.Hour, 10)
		if err != nil || len(events) != 2 || events[0].Into != d.id(1) || events[0].State != push.Digested {
			t.Errorf("%+v, %v", events, err)
		}
		must(t, second(d.at.Settle(t.Context(), d.id(1), &store.End{State: push.Delivered})))
		if left := client.HKeys(t.Context(), d.at.Key("id:"+d.id(1))).Val(); slices.Contains(left, "newest") || !slices.Contains(left, "told") {
			t.Errorf("its record has %q", left)
		}
	})
}
