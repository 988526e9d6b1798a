package push_test

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
)

func TestGroupHasExactlyOneField(t *testing.T) {
	t.Parallel()
	for g, valid := range map[push.Group]bool{
		{}: false, {Thread: "t"}: true, {CollapseKey: "k"}: true, {Category: "c"}: true, {DigestKey: "d"}: true,
		{Thread: "t", Category: "c"}: false, {Thread: "t", CollapseKey: "k", Category: "c", DigestKey: "d"}: false,
	} {
		if err := g.Validate(); (err == nil) != valid {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

func TestGroupMatchesNotificationsByField(t *testing.T) {
	t.Parallel()
	payload := func(n push.Notification) []byte {
		n.ID, n.App, n.User, n.Title, n.Targets = "n", "a", "u", "t", []push.Target{{Platform: push.FCM, Token: "t"}}
		text, err := push.Encode(&push.Job{Notification: &n, AcceptedAt: time.Now()})
		must(t, err)
		return text
	}
	all := map[string][]byte{
		"thread": payload(push.Notification{Thread: "x"}), "collapse key": payload(push.Notification{CollapseKey: "x"}),
		"category": payload(push.Notification{Category: "x"}), "digest key": payload(push.Notification{Digest: &push.Digest{Key: "x"}}),
		"none": payload(push.Notification{}), "unreadable": []byte("x"),
	}
	for of, g := range map[string]push.Group{"thread": {Thread: "x"}, "collapse key": {CollapseKey: "x"}, "category": {Category: "x"}, "digest key": {DigestKey: "x"}} {
		for name, payload := range all {
			if g.Has(payload) != (name == of) {
				t.Errorf("the group by %s has that with %s: %t", of, name, g.Has(payload))
			}
		}
	}
}
