package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// The model numbers a few notifications and keeps sets of them as bits.

const (
	few    = 3
	nobody = -1
)

// keys is the model's state: the content of the notifications' records and of the digest's key.
type keys struct {
	ended  [few]bool
	joined [few]uint8 // by the carrier
	open   [few]bool
	slot   [few]bool // the notification has been put off
	last   int8      // the digest's key
}

// step is Digest for x in the model. It returns whether x has ended, and the carrier that it has
// joined.
func (k *keys) step(op string, x int, owned bool, most int) (ended bool, into int) {
	k.open[x] = false
	if k.ended[x] {
		return true, nobody
	}
	if op == "close" || !owned {
		return false, nobody
	}
	c := int(k.last)
	if !k.slot[x] && k.joined[x] == 0 && c != nobody && c != x && k.open[c] && !k.ended[c] && count(k.joined[c])+1 < most {
		k.joined[c] |= 1 << x
		k.ended[x] = true
		return false, c
	}
	if op == "wait" {
		k.open[x], k.last = true, int8(x)
	}
	return false, nobody
}

func count(set uint8) (n int) {
	for ; set != 0; set &= set - 1 {
		n++
	}
	return n
}

// The script agrees with the model after any sequence of steps.
func TestDigestScriptMatchesModel(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		records := store.NewRecords(client, prefix, 0).WithShards(1).WithBounds(store.Bounds{Outcomes: 100})
		random := rand.New(rand.NewPCG(1, 2))
		for round := range 60 {
			d, k := newDigests(t, records, fmt.Sprint("u", round)), keys{last: nobody}
			most := 2 + random.IntN(2)
			for range 12 {
				x := random.IntN(few)
				switch n := random.IntN(7); n {
				case 0, 1, 2, 3:
					op := []store.DigestOp{store.CloseDigest, store.JoinDigest, store.WaitInDigest, store.WaitInDigest}[n]
					claim := []string{"", "", "", "lost"}[random.IntN(4)]
					ended, into := k.step(string(op), x, claim == "", most)
					got := d.step(op, x, claim, most)
					if got.Ended != ended || (got.Into != "") != (into != nobody) || into != nobody && got.Into != d.id(into) {
						t.Fatalf("round %d: %s of %d: %+v, want %t, into %d", round, op, x, got, ended, into)
					}
					if !ended && into == nobody && members(d, got) != k.joined[x] {
						t.Fatalf("round %d: %d carries %v, want %b", round, x, got.Joined, k.joined[x])
					}
				case 4, 5:
					must(t, client.HSet(t.Context(), d.at.Key("id:"+d.id(x)), "until", 1).Err())
					k.slot[x] = true
				case 6:
					first, err := d.at.Settle(t.Context(), d.id(x), &store.End{State: push.Delivered})
					if err != nil || first == k.ended[x] {
						t.Fatalf("round %d: %d ends: %t, %v", round, x, first, err)
					}
					k.ended[x] = true
				}
			}
		}
	})
}

func members(d *digests, p store.Part) (set uint8) {
	for x := range few {
		if slices.Contains(p.Joined, d.id(x)) {
			set |= 1 << x
		}
	}
	return set
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
		if err != nil || counts.Ended[push.Digested] != 2 || counts.Waiting() != 1 {
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

// Take refuses a carrier, unless the option Carriers allows the loss of its joined notifications.
func TestTakeRefusesCarrier(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		producer := push.NewProducer(client, prefix, 0).WithShards(1)
		records := store.NewRecords(client, prefix, 0).WithShards(1)
		for x := range few + 1 {
			n := &push.Notification{ID: fmt.Sprint("u-", x), App: "shop", User: "u", Category: "likes", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t", Digest: &push.Digest{Key: "post 4711/ü"}}
			must(t, second(producer.Enqueue(t.Context(), n)))
		}
		d := newDigests(t, records, "u")
		ref := func(x int) push.Ref { return push.Ref{ID: d.id(x), App: "shop", User: "u"} }
		d.wait(0, few)
		d.wait(1, few)
		for range 2 {
			carries := new(store.CarriesError)
			if _, err := d.at.Take(t.Context(), ref(0), store.TakeOptions{State: push.Cancelled, Read: push.Contents}); !errors.As(err, &carries) || carries.Others != 1 {
				t.Errorf("took a carrier: %v", err)
			}
		}
		taken, errs := d.at.TakeAll(t.Context(), []push.Ref{ref(0), ref(few)}, store.TakeOptions{State: push.Cancelled, Read: push.Contents, Others: store.AllOthers})
		for i, err := range errs {
			if err != nil || taken[i].State != push.Cancelled {
				t.Errorf("%d: %+v, %v", i, taken[i], err)
			}
		}
		if p := d.wait(2, few); p.Into != "" {
			t.Errorf("joined an ended notification: %+v", p)
		}
		if _, err := d.at.Take(t.Context(), ref(2), store.TakeOptions{State: push.Cancelled, Read: push.Contents}); err != nil {
			t.Errorf("a carrier without joined notifications: %v", err)
		}
	})
}
