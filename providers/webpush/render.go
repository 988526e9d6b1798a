package webpush

import (
	"time"

	"github.com/pushpace/pushpace/push"
)

// render returns the message that a target gets.
func render(n *push.Notification, t push.Target, now time.Time) (push.WebPushMessage, error) {
	return n.RenderWebPush(t, now)
}
