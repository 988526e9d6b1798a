// Package judge checks sent pushes against the limits in force, and digests against their members.
package judge

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pushpace/pushpace/push"
)

// Digests holds the digest pushes that FCM's stand-in received.
type Digests struct {
	mu   sync.Mutex
	seen map[string][]shown // by the ID of the push
}

// shown is the text of a digest push, and the count in its data.
type shown struct{ count, title, body, token string }

// See records the body of a request to FCM, if it is a digest push.
func (d *Digests) See(body []byte) {
	var request struct {
		Message struct {
			Token        string
			Data         map[string]string
			Notification struct{ Title, Body string }
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return // the stand-in refuses it
	}
	m := request.Message
	if m.Data[push.DigestKey] == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil {
		d.seen = map[string][]shown{}
	}
	id := m.Data["pushpace_id"]
	d.seen[id] = append(d.seen[id], shown{m.Data[push.DigestKey], m.Notification.Title, m.Notification.Body, m.Token})
}

// TellingDigest returns a digest that lists its members' titles. Each title must be the ID of its
// notification.
func TellingDigest(key string) *push.Digest {
	return &push.Digest{Key: key, Title: "{count} news", Body: "{first}, {second}, {third} and {more}"}
}

// JudgeTold checks that each sent digest names all its notifications. told has their IDs, by the ID of
// the digest's push.
func (d *Digests) JudgeTold(t *testing.T, told map[string][]string, sent map[string]bool) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, pushes := range d.seen {
		others := told[id]
		first := pushes[0]
		if count := strconv.Itoa(1 + len(others)); first.count != count || !strings.HasPrefix(first.title, count+" ") {
			t.Errorf("the push %s contains %+v, but %q have joined it", id, first, others)
		}
		names, _, _ := strings.Cut(first.body, " and ")
		for i, name := range strings.Split(names, ", ") {
			if name != "" && name != id && !slices.Contains(others, name) || i == 0 && name != id {
				t.Errorf("the push %s says %q, and %q have joined it", id, first.body, others)
			}
		}
		for _, again := range pushes {
			if again != first {
				t.Errorf("the push %s says %+v, and then %+v", id, first, again)
			}
		}
	}
	for id := range told {
		if sent[id] && len(d.seen[id]) == 0 {
			t.Errorf("%q have joined %s, but its push is no digest", told[id], id)
		}
	}
}
