package worker

import (
	"context"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// collapse ends the delivery if a newer notification has its collapse key. Else it ends the older
// one, which waits on its queue, and the delivery takes over its slot when it asks for one. An
// older one that is in hand ends at its next visit. If that is being sent, the device replaces it.
func (h *handler) collapse(ctx context.Context, d *delivery) fate {
	if d.CollapseKey == "" {
		return nil
	}
	key := store.CollapseKey{App: d.App, User: d.User, Key: d.CollapseKey}
	found, err := d.at.Records.Collapse(ctx, key, d.ID, d.accepted, push.Contents)
	switch {
	case err != nil:
		return later(err)
	case found.Newer:
		return d.cutShort(push.Superseded, "a newer one has the same collapse key")
	}
	d.heir, d.elder = found.Heir, found.Elder
	return nil
}
