package push

import (
	"fmt"
	"testing"
	"time"
)

// The digest of a content is stored as long as its ID is known, also across an update: with a different
// digest, the new build would reject a repeated notification.
func TestContentDigestIsStableAcrossVersions(t *testing.T) {
	t.Parallel()
	badge := 3
	n := Notification{
		ID: "order-4711", App: "shop", User: "ada", Category: "orders", Priority: Bulk, Targets: []Target{{Platform: APNs, Token: "00fcab"}, {Platform: FCM, Token: "t:1"}},
		Title: "a <b> & c", Subtitle: "s", Body: "ü\u2028", Badge: &badge, Sound: "default", Image: "https://example.com/a.png", Thread: "t", Channel: "c",
		Data: map[string]string{"z": "1", "a": "2"}, PushType: "alert", CollapseKey: "k",
	}
	raw := n
	raw.APNs, raw.FCM = []byte(`{"b": [1.0, 2, 1e2], "a": {"z": null, "y": "é"}}`), []byte(`{"android":{"ttl":"3s"}}`)
	other := raw
	other.APNs = []byte(`{"a":{"y":"\u00e9","z":null},"b":[1,2,100]}`)
	null := n
	null.APNs = []byte("null")
	ends := n
	ends.ExpiresAt = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		n    Notification
		want string
	}{
		"plain": {n, "7a97366f26a87789"}, "that ends": {ends, "7a97366f26a87789"}, "without a block": {null, "7a97366f26a87789"},
		"with blocks": {raw, "07422c27555f6b63"}, "with the same blocks": {other, "07422c27555f6b63"},
	} {
		payload, err := Encode(&Job{Notification: &c.n, AcceptedAt: time.Now()})
		must(t, err)
		if digest, err := contentDigest(&c.n, payload); err != nil || fmt.Sprintf("%x", digest) != c.want {
			t.Errorf("%s: %x, want %s (%v)", name, digest, c.want, err)
		}
	}
}
