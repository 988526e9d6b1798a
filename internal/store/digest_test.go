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

// digests has notifications with a digest in one user's shard.
type digests struct {
	t      *testing.T
	at     *store.Shard
	digest store.Digest
	name   string // begins the IDs
}

func newDigests(t *testing.T, records *store.Records, user string) *digests {
	t.Helper()
	at, err := records.Of(t.Context(), "shop", user)
	if err != nil {
		t.Fatal(err)
	}
	d := &digests{t, at, at.Digest("shop", user, "likes", "post 4711/ü"), user + "-"}
	for x := range few {
		if err := at.Arrive(t.Context(), d.id(x), "default", store.Facts{App: "shop", User: user, Category: "likes"}); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (d *digests) id(x int) string { return fmt.Sprint(d.name, x) }

func (d *digests) join(x int, carry bool, most int) store.Part {
	d.t.Helper()
	j := &store.Joiner{ID: d.id(x), Accepted: time.UnixMicro(int64(x + 1)), Title: fmt.Sprint("title ", x), JSON: fmt.Append(nil, x), Targets: []store.TargetOutcome{{Platform: push.FCM}}}
	if x > 0 {
		j.Expires = time.UnixMilli(int64(1000 * x)).UTC()
	}
	p, err := d.digest.Join(d.t.Context(), j, carry, time.Hour, most)
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

func (d *digests) seal(x int) store.Told {
	d.t.Helper()
	told, err := d.digest.Seal(d.t.Context(), d.id(x))
	if err != nil {
		d.t.Fatal(err)
	}
	return told
}

// The script does what the model does, whatever comes after what.
func TestDigestScriptIsTheModel(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		records := store.NewRecords(client, prefix, 0).WithShards(1).WithBounds(store.Bounds{Outcomes: 100})
		random := rand.New(rand.NewPCG(1, 2))
		for round := range 60 {
			d, k := newDigests(t, records, fmt.Sprint("u", round)), keys{carrier: nobody}
			most := 2 + random.IntN(2)
			for range 12 {
				x := random.IntN(few)
				switch random.IntN(7) {
				case 0, 1, 2:
					carry := random.IntN(2) == 0
					answer, who := k.join(x, carry, most)
					for answer == "full" && carry {
						k.seal(who)
						answer, who = k.join(x, carry, most)
					}
					got := d.join(x, carry, most)
					if into := answer == "joined"; (got.Into != "") != into || into && got.Into != d.id(who) ||
						got.Carries != (answer == "carries") || got.Ended != (answer == "ended") {
						t.Fatalf("round %d: %d joins: %+v, want %s %d", round, x, got, answer, who)
					}
					if answer == "carries" && members(d, got.Told) != k.members {
						t.Fatalf("round %d: %d carries %v, want %b", round, x, got.Told.IDs, k.members)
					}
				case 3, 4, 5:
					want, got := k.seal(x), d.seal(x)
					if got.Ended != (want == 0) || count(want) > 1 != got.Sealed || got.Sealed && members(d, got) != want {
						t.Fatalf("round %d: %d is sealed: %+v, want %b", round, x, got, want)
					}
				case 6:
					k.seal(x) // which comes before any end
					d.seal(x)
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

func members(d *digests, told store.Told) (set uint8) {
	for x := range few {
		if slices.Contains(told.IDs, d.id(x)) {
			set |= 1 << x
		}
	}
	return set
}

// What a digest keeps is of all: the titles of the first, the newest by its acceptance, and
// the latest end. Records and outcomes say who is told of where.
func TestDigestKeepsAll(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		records := store.NewRecords(client, prefix, 0).WithShards(1).WithBounds(store.Bounds{Outcomes: 100})
		d := newDigests(t, records, "u")
		if p := d.join(1, false, few); p.Carries || p.Into != "" {
			t.Errorf("nobody waits: %+v", p)
		}
		if p := d.join(1, true, few); !p.Carries || !p.Told.Expires.Equal(time.UnixMilli(1000)) {
			t.Errorf("%+v", p)
		}
		if p := d.join(2, false, few); p.Into != d.id(1) {
			t.Errorf("%+v", p)
		}
		if p := d.join(0, true, few); p.Into != d.id(1) {
			t.Errorf("%+v", p)
		}
		for range 2 {
			told := d.seal(1)
			if !told.Sealed || !slices.Equal(told.IDs, []string{d.id(1), d.id(2), d.id(0)}) || !slices.Equal(told.Titles, []string{"title 1", "title 2", "title 0"}) ||
				string(told.Newest) != "2" || !told.Expires.IsZero() {
				t.Errorf("%+v", told)
			}
		}
		record, err := d.at.Lookup(t.Context(), d.id(2))
		if err != nil || record.State != push.Digested || record.Into != d.id(1) {
			t.Errorf("%+v, %v", record, err)
		}
		if record, err = d.at.Lookup(t.Context(), d.id(1)); err != nil || record.State != push.Waiting || record.Told != 2 {
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
	})
}

// What carries others is not taken from the queue, unless they are to be lost with it; and
// nobody joins what is being taken.
func TestTakeCarrier(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		producer := push.NewProducer(client, prefix, 0).WithShards(1)
		records := store.NewRecords(client, prefix, 0).WithShards(1)
		for x := range few + 1 {
			n := &push.Notification{ID: fmt.Sprint("u-", x), App: "shop", User: "u", Category: "likes", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t", Digest: &push.Digest{Key: "post 4711/ü"}}
			if _, err := producer.Enqueue(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		d := newDigests(t, records, "u")
		ref := func(x int) push.Ref { return push.Ref{ID: d.id(x), App: "shop", User: "u"} }
		d.join(0, true, few)
		d.join(1, true, few)
		for range 2 {
			carries := new(store.CarriesError)
			if _, err := d.at.Take(t.Context(), ref(0), store.How{State: push.Cancelled, Read: push.Contents}); !errors.As(err, &carries) || carries.Others != 1 {
				t.Errorf("it carries another one: %v", err)
			}
		}
		taken, errs := d.at.TakeAll(t.Context(), []push.Ref{ref(0), ref(few)}, store.How{State: push.Cancelled, Read: push.Contents, Others: true})
		for i, err := range errs {
			if err != nil || taken[i].State != push.Cancelled {
				t.Errorf("%d: %+v, %v", i, taken[i], err)
			}
		}
		if p := d.join(2, true, few); !p.Carries {
			t.Errorf("after that it carries: %+v", p)
		}
		if _, err := d.at.Take(t.Context(), ref(2), store.How{State: push.Cancelled, Read: push.Contents}); err != nil {
			t.Errorf("it carries nobody else: %v", err)
		}
	})
}
