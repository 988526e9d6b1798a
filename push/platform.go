package push

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"
)

// A platform is all that this package knows of one. Whatever differs by platform goes by
// the table: another platform is an entry, and its rendering.
type platform struct {
	name Platform
	// title is how people call it.
	title string
	// since is the oldest version of a job's encoding that knows it.
	since int
	// token says what is wrong with a token, "" if nothing is; nil for what is wrong on
	// none.
	token func(string) string
	// keyed says that a target has keys.
	keyed bool
	// same is the one way to write a token that may be written in several; nil where there is
	// no other.
	same func(string) string
	// data says what is wrong with a name in Data, "" if nothing is; nil for what is wrong
	// on none.
	data func(n *Notification, name string) string
	// block is the raw block that is laid over what is derived. Its name is the
	// platform's.
	block func(*Notification) *json.RawMessage
	// shape is what the block may be.
	shape *shape
	// needs adds what the block, decoded, lacks or must not have for the push type; nil
	// for nothing.
	needs func(n *Notification, block map[string]any, f *Faults)
	// alertOnly says that it takes no other push type.
	alertOnly bool
	// shows reports whether the platform takes an alert so that somebody sees it, and
	// unseen says what is wrong where it does not.
	shows  func(*Notification) bool
	unseen Fault
	// largest renders the largest of what is bounded in size, under the ID. Its error is
	// of type Faults where that is too large.
	largest func(n *Notification, id string) ([]byte, error)
	// most is how many bytes of it the platform takes at least.
	most int
}

// platforms are all that there are, in the order in which they are listed.
var platforms = []*platform{
	{
		name: APNs, title: "APNs", since: 1,
		token: apnsToken, same: strings.ToLower,
		data:  apnsData,
		block: func(n *Notification) *json.RawMessage { return &n.APNs }, shape: apnsShape, needs: (*Notification).checkAPNsBlock,
		shows: (*Notification).shownByAPNs, unseen: nothingShown,
		largest: (*Notification).apnsPayload, most: MaxAPNsPayload,
	},
	{
		name: FCM, title: "FCM", since: 1,
		data:  func(_ *Notification, name string) string { return reservedByFCM(name) },
		block: func(n *Notification) *json.RawMessage { return &n.FCM }, shape: fcmShape,
		shows: (*Notification).reachesFCM, unseen: nothingShown,
		largest: (*Notification).largestFCMMessage, most: MaxFCMMessage,
	},
	{
		name: PlatformWebPush, title: "Web Push", since: 2,
		token: endpointFault, same: sameEndpoint, keyed: true,
		block: func(n *Notification) *json.RawMessage { return &n.WebPush }, shape: webPushShape,
		alertOnly: true,
		shows:     (*Notification).titledForWebPush, unseen: Fault{Field: "/title", Problem: "is missing: a browser shows nothing without one"},
		largest: (*Notification).webPushPayload, most: MaxWebPushPayload,
	},
}

// platformOf returns the platform of that name, nil for none.
func platformOf(name Platform) *platform {
	for _, p := range platforms {
		if p.name == name {
			return p
		}
	}
	return nil
}

// Platforms returns those that a target can have, in the order in which they are listed.
// The slice is the caller's.
func Platforms() []Platform {
	names := make([]Platform, len(platforms))
	for i, p := range platforms {
		names[i] = p.name
	}
	return names
}

// PlatformTitle returns how people call the platform, such as "APNs", or a push service of
// one, such as "Web Push (mozilla)"; the name itself of another.
func PlatformTitle(name Platform) string {
	of, service, _ := strings.Cut(string(name), ":")
	p := platformOf(Platform(of))
	switch {
	case p == nil:
		return string(name)
	case service != "":
		return p.title + " (" + service + ")"
	}
	return p.title
}

// targeted are the platforms that have a target.
func (n *Notification) targeted() iter.Seq[*platform] {
	return func(yield func(*platform) bool) {
		for _, p := range platforms {
			if n.has(p.name) && !yield(p) {
				return
			}
		}
	}
}

// has reports whether a target is on the platform.
func (n *Notification) has(p Platform) bool {
	return slices.ContainsFunc(n.Targets, func(t Target) bool { return t.Platform == p })
}

// namesBlock reports whether there is a raw block, if only a null.
func (n *Notification) namesBlock() bool {
	return slices.ContainsFunc(platforms, func(p *platform) bool { return len(*p.block(n)) > 0 })
}

// hasBlock reports whether a raw block says something.
func (n *Notification) hasBlock() bool {
	return slices.ContainsFunc(platforms, func(p *platform) bool { return !absent(*p.block(n)) })
}
