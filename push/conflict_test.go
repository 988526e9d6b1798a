package push_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// order returns the notification that is enqueued again, changed.
func order(id string, change func(*push.Notification)) *push.Notification {
	n := &push.Notification{
		ID: id, App: "shop", User: "ada", Category: "orders", Targets: []push.Target{{Platform: push.APNs, Token: "00fcab"}, {Platform: push.FCM, Token: "t:1"}},
		Title: "Shipped", Data: map[string]string{"order": "4711", "by": "air"},
		APNs: json.RawMessage(`{"aps": {"interruption-level": "active", "relevance-score": 0.5}}`), TTL: push.Duration(time.Hour),
	}
	if change != nil {
		change(n)
	}
	return n
}

// A repeated ID means the same notification. With a different user or content, Enqueue and EnqueueAll
// reject it and queue nothing.
func TestRepeatedIDWithOtherContentConflicts(t *testing.T) {
	same := map[string]func(*push.Notification){
		"as it was":     nil,
		"another ttl":   func(n *push.Notification) { n.TTL = push.Duration(2 * time.Hour) },
		"no ttl":        func(n *push.Notification) { n.TTL = 0 },
		"another end":   func(n *push.Notification) { n.TTL, n.ExpiresAt = 0, time.Now().Add(200*365*24*time.Hour) },
		"another begin": func(n *push.Notification) { n.TTL, n.NotBefore = 0, time.Now().Add(time.Hour) },
		"otherwise written": func(n *push.Notification) {
			n.APNs, n.FCM = json.RawMessage(`{"aps":{"relevance-score":5e-1,"interruption-level":"active"}}`), json.RawMessage(`null`)
		},
	}
	other := map[string]func(*push.Notification){
		"user": func(n *push.Notification) {
			n.User = inShardOfAda(func(i int) (string, string) { return n.App, fmt.Sprint("ben-", i) })
		},
		"app": func(n *push.Notification) {
			n.App = inShardOfAda(func(i int) (string, string) { return fmt.Sprint("bank-", i), n.User })
		},
		"category": func(n *push.Notification) { n.Category = "" },
		"priority": func(n *push.Notification) { n.Priority = push.Critical },
		"title":    func(n *push.Notification) { n.Title = "Delivered" },
		"token":    func(n *push.Notification) { n.Targets[1].Token = "t:2" },
		"targets":  func(n *push.Notification) { n.Targets[0], n.Targets[1] = n.Targets[1], n.Targets[0] },
		"data":     func(n *push.Notification) { n.Data["by"] = "sea" },
		"raw": func(n *push.Notification) {
			n.APNs = json.RawMessage(`{"aps":{"relevance-score":0.6,"interruption-level":"active"}}`)
		},
	}
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		producer := push.NewProducer(client, prefix, 0)
		enqueue := func(n *push.Notification) (push.Receipt, error) { return producer.Enqueue(t.Context(), n) }
		inABatch := func(n *push.Notification) (push.Receipt, error) {
			results := producer.EnqueueAll(t.Context(), []*push.Notification{order("", nil), n, order("", nil)})
			for _, i := range []int{0, 2} {
				if results[i].Err != nil || results[i].Known {
					t.Errorf("a neighbour in the batch: %+v", results[i])
				}
			}
			return results[1].Receipt, results[1].Err
		}
		for _, first := range []*push.Notification{
			order("due", nil),
			order("scheduled", func(n *push.Notification) { n.NotBefore = time.Now().Add(30 * time.Minute) }),
		} {
			if receipt, err := enqueue(first); err != nil || receipt.Known {
				t.Fatalf("%s: %+v, %v", first.ID, receipt, err)
			}
			for how, again := range map[string]func(*push.Notification) (push.Receipt, error){"alone": enqueue, "in a batch": inABatch} {
				for what, change := range same {
					if receipt, err := again(order(first.ID, change)); err != nil || !receipt.Known || receipt.ID != first.ID {
						t.Errorf("%s, again %s, %s: %+v, %v", first.ID, how, what, receipt, err)
					}
				}
				for what, change := range other {
					if receipt, err := again(order(first.ID, change)); !errors.Is(err, push.ErrConflict) || receipt.Known || receipt.ID != first.ID {
						t.Errorf("%s, again %s with another %s: %+v, %v", first.ID, how, what, receipt, err)
					}
				}
			}
		}
		counts, err := store.NewRecords(client, prefix, 0).Counts(t.Context())
		if want := int64(2 + 2*2*(len(same)+len(other))); err != nil || counts.Accepted != want {
			t.Errorf("accepted %d, want %d (%v)", counts.Accepted, want, err)
		}
	})
}

// inShardOfAda returns the first of names, another user or app, that has the same shard of 8 as ada.
func inShardOfAda(names func(i int) (app, user string)) string {
	for i := 0; ; i++ {
		app, user := names(i)
		if shard.Of(8, app, user) == shard.Of(8, "shop", "ada") {
			if app != "shop" {
				return app
			}
			return user
		}
	}
}

// If several users have an ID, the error has the choices. App, user or both select a notification.
func TestIDOfSeveralUsersIsAmbiguous(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	prefix := redistest.Prefix()
	producer := push.NewProducer(client, prefix, 0).WithShards(8)
	choices := apart(t, client, prefix, push.Ref{ID: "same", App: "bank", User: "ada"}, push.Ref{ID: "same", App: "shop", User: "ada"}, push.Ref{ID: "same", App: "shop", User: "ben"})
	for _, ref := range choices {
		if _, err := producer.Enqueue(t.Context(), order(ref.ID, func(n *push.Notification) { n.App, n.User = ref.App, ref.User })); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		ref  push.Ref
		want []push.Ref // nil for none
	}{
		{push.Ref{ID: "same"}, choices},
		{push.Ref{ID: "same", App: "shop"}, choices[1:]},
		{push.Ref{ID: "same", App: "bank"}, choices[:1]},
		{push.Ref{ID: "same", User: choices[2].User}, choices[2:]},
		{choices[1], choices[1:2]},
		{push.Ref{ID: "same", App: "bank", User: choices[2].User}, nil},
		{push.Ref{ID: "same", App: "none"}, nil},
		{push.Ref{ID: "other", App: "shop", User: choices[1].User}, nil},
	} {
		status, err := producer.StatusOf(t.Context(), c.ref)
		var several *push.AmbiguousError
		switch {
		case len(c.want) == 0 && !errors.Is(err, push.ErrUnknownID),
			len(c.want) == 1 && (err != nil || status.App != c.want[0].App || status.User != c.want[0].User),
			len(c.want) > 1 && (!errors.As(err, &several) || !errors.Is(err, push.ErrAmbiguous) || !slices.Equal(several.Choices, c.want)):
			t.Errorf("%+v: %+v, %v, %+v", c.ref, status, err, several)
		}
		if len(c.want) == 0 {
			if err := producer.CancelOf(t.Context(), c.ref); !errors.Is(err, push.ErrUnknownID) {
				t.Errorf("%+v is cancelled: %v", c.ref, err)
			}
		}
	}
	if err := producer.CancelOf(t.Context(), push.Ref{ID: "same", App: "shop"}); !errors.Is(err, push.ErrAmbiguous) {
		t.Errorf("whose is to be cancelled? %v", err)
	}
	if err := producer.CancelOf(t.Context(), choices[1]); err != nil {
		t.Error(err)
	}
	for i, want := range []push.State{push.Waiting, push.Cancelled, push.Waiting} {
		if status, err := producer.StatusOf(t.Context(), choices[i]); err != nil || status.State != want {
			t.Errorf("%+v: %+v, %v", choices[i], status, err)
		}
	}
}

// The choices of an AmbiguousError name a dead letter with an unreadable job by app and user if its
// notification was accepted. A dead letter without app and user stays among the choices.
func TestAmbiguousErrorListsUnreadableDeadLetters(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	producer, records := push.NewProducer(client, "", 0).WithShards(8), store.NewRecords(client, "", 0).WithShards(8)
	refs := apart(t, client, "", push.Ref{ID: "same", App: "shop", User: "ada"}, push.Ref{ID: "same", App: "shop", User: "ben"}, push.Ref{ID: "same", App: "shop", User: "nobody"})
	for i, ref := range refs {
		at, err := records.Of(t.Context(), ref.App, ref.User)
		if err == nil && i < 2 {
			_, err = producer.Enqueue(t.Context(), order(ref.ID, func(n *push.Notification) { n.App, n.User = ref.App, ref.User }))
		}
		if err == nil {
			err = at.SetAside(t.Context(), &store.Letter{ID: ref.ID, State: store.Malformed, Reason: "unknown_version", Queue: push.Default.Queue(), Job: []byte(`{"v":99}`)})
		}
		must(t, err)
	}
	var several *push.AmbiguousError
	if err := producer.Requeue(t.Context(), "same"); !errors.As(err, &several) || !slices.Equal(several.Choices, []push.Ref{{ID: "same"}, refs[0], refs[1]}) {
		t.Errorf("%v: %+v", err, several.Choices)
	}
	letters, _, err := records.LettersFrom(t.Context(), "", 10)
	for _, l := range letters {
		if l.FillOwner(push.Contents); l.App != "" && l.Ref() != refs[0] && l.Ref() != refs[1] {
			t.Errorf("%+v", l)
		}
	}
	if err != nil || len(letters) != 3 {
		t.Errorf("%+v, %v", letters, err)
	}
	for _, ref := range refs[:2] {
		if err := records.Purge(t.Context(), ref, push.Contents); err != nil {
			t.Errorf("%+v: %v", ref, err)
		}
	}
	if err := records.Purge(t.Context(), push.Ref{ID: "same"}, push.Contents); err != nil {
		t.Errorf("the last one: %v", err)
	}
}

// A dead letter that another program has put into another user's shard is found by ID, app and
// user.
func TestDeadLetterInWrongShardIsFound(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	records := store.NewRecords(client, "", 0).WithShards(8)
	refs := apart(t, client, "", push.Ref{ID: "odd", App: "shop", User: "ada"}, push.Ref{ID: "odd", App: "shop", User: "ben"})
	job, err := push.Encode(&push.Job{Notification: order("even", func(n *push.Notification) { n.User, n.TTL = refs[0].User, 0 }), AcceptedAt: time.Now()})
	must(t, err)
	at, err := records.Of(t.Context(), refs[1].App, refs[1].User)
	if err == nil {
		err = at.SetAside(t.Context(), &store.Letter{ID: "odd", State: store.Malformed, Reason: "invalid", Queue: push.Default.Queue(), Job: job})
	}
	must(t, err)
	for _, want := range []error{nil, store.ErrNoLetter} {
		if err := records.Purge(t.Context(), refs[0], push.Contents); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// apart returns the refs with a suffix for each user, so that each is in a different shard.
func apart(t *testing.T, client redis.UniversalClient, prefix string, refs ...push.Ref) []push.Ref {
	t.Helper()
	records := store.NewRecords(client, prefix, 0).WithShards(8)
	taken := map[*store.Shard]bool{}
	for i := range refs {
		for n := 0; ; n++ {
			user := fmt.Sprint(refs[i].User, "-", n)
			at, err := records.Of(t.Context(), refs[i].App, user)
			must(t, err)
			if !taken[at] {
				taken[at], refs[i].User = true, user
				break
			}
		}
	}
	return refs
}
