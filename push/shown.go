package push

import (
	"slices"

	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// nothingShown is the fault of an alert without content.
var nothingShown = Fault{
	Field:   "/push_type",
	Problem: `alert has nothing to show: give a title or a body, or push_type "background" to wake the app in silence`,
}

// checkShown rejects an alert that a platform accepts but does not display.
func (n *Notification) checkShown(f *Faults) {
	if n.pushType() != PushAlert {
		return
	}
	for p := range n.targeted() {
		if !p.shows(n) && !slices.Contains(*f, p.unseen) {
			*f = append(*f, p.unseen)
		}
	}
}

// shownByAPNs reports whether the payload has an alert, a badge or a sound.
func (n *Notification) shownByAPNs() bool {
	if absent(n.APNs) && (n.Title != "" || n.Body != "") {
		return true
	}
	derived, err := strictjson.Encode(apnsBody{Aps: n.aps()})
	if err != nil {
		return true // rendering reports the error
	}
	raw := n.APNs
	if absent(raw) {
		raw = []byte("{}")
	}
	payload, err := overlay(derived, raw)
	if err != nil {
		return true
	}
	aps, _ := payload["aps"].(map[string]any)
	return aps["badge"] != nil || !isEmpty(aps["sound"]) || alertShows(aps["alert"])
}

// alertTexts are the members of an alert that are shown.
var alertTexts = []string{"title", "subtitle", "body", "title-loc-key", "subtitle-loc-key", "loc-key"}

func alertShows(alert any) bool {
	parts, ok := alert.(map[string]any)
	if !ok {
		return !isEmpty(alert)
	}
	return slices.ContainsFunc(alertTexts, func(name string) bool { return !isEmpty(parts[name]) })
}

func isEmpty(v any) bool { return v == nil || v == "" }

// reachesFCM reports whether there is content or data for the app on Android: the app
// displays a message that has only data.
func (n *Notification) reachesFCM() bool {
	if n.Title != "" || n.Body != "" || n.Image != "" || n.Sound != "" || n.Badge != nil || len(n.Data) > 0 {
		return true
	}
	var block map[string]any
	if absent(n.FCM) || strictjson.Decode(n.FCM, &block) != nil {
		return false
	}
	for _, member := range block {
		if member != nil {
			return true
		}
	}
	return false
}
