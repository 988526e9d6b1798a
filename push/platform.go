package push

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"
)

// A platform has everything that differs by platform in this package. A new platform needs an
// entry in platforms, and its rendering.
type platform struct {
	name Platform
	// title is the platform's name in texts.
	title string
	// since is the oldest version of a job's encoding that has the platform.
	since int
	// token returns the fault of a device token, "" for none; nil for platforms without a check.
	token func(string) string
	// keyed is true if targets have keys.
	keyed bool
	// same returns the canonical form of a device token; nil if tokens have one form.
	same func(string) string
	// data returns the fault of a name in Data, "" for none; nil for platforms without a check.
	data func(n *Notification, name string) string
	// block returns the raw block, which has the platform's name.
	block func(*Notification) *json.RawMessage
	// shape describes valid blocks.
	shape *shape
	// needs adds the faults of the decoded block for the push type; nil for platforms without
	// a check.
	needs func(n *Notification, block map[string]any, f *Faults)
	// alertOnly is true if alert is its only push type.
	alertOnly bool
	// shows reports whether the platform displays the alert. unseen is the fault of an alert
	// that it does not display.
	shows  func(*Notification) bool
	unseen Fault
	// largest renders the largest message or payload that is possible for the ID. Its error is of type
	// Faults if this is too large.
	largest func(n *Notification, id string) ([]byte, error)
	// most is the smallest of the platform's size limits, in bytes.
	most int
}

// platforms are all platforms, in the order in which lists show them.
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
		shows:     (*Notification).titledForWebPush, unseen: Fault{Field: "/title", Problem: "is missing: a browser shows nothing without a title"},
		largest: (*Notification).webPushPayload, most: MaxWebPushPayload,
	},
}

// platformOf returns the platform of that name; nil if there is none.
func platformOf(name Platform) *platform {
	for _, p := range platforms {
		if p.name == name {
			return p
		}
	}
	return nil
}

// Platforms returns all platforms, in the order in which lists show them. The slice is the caller's.
func Platforms() []Platform {
	names := make([]Platform, len(platforms))
	for i, p := range platforms {
		names[i] = p.name
	}
	return names
}

// PlatformTitle returns the name in texts of a platform, such as "APNs", or of a push service,
// such as "Web Push (mozilla)". It returns unknown names unchanged.
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

// targeted returns the platforms that have a target.
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

// namesBlock reports whether there is a raw block, even if it is null.
func (n *Notification) namesBlock() bool {
	return slices.ContainsFunc(platforms, func(p *platform) bool { return len(*p.block(n)) > 0 })
}

// hasBlock reports whether there is a raw block that is not null.
func (n *Notification) hasBlock() bool {
	return slices.ContainsFunc(platforms, func(p *platform) bool { return !absent(*p.block(n)) })
}
