package push

import (
	"strconv"
	"strings"

	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// apnsToken returns the fault of a device token for APNs, "" for none.
func apnsToken(s string) string {
	if isHex(s) {
		return ""
	}
	what := otherToken(s)
	if isRegistrationToken(s) {
		what = "is an FCM registration token"
	}
	if what != "" {
		return what + ": an APNs device token is hexadecimal"
	}
	return "must be hexadecimal: it is an APNs device token"
}

// apnsData returns the fault of a name in Data, "" for none. The names are beside "aps" in the payload.
func apnsData(n *Notification, name string) string {
	switch {
	case name == "aps":
		return "is reserved by APNs: the block apns holds it"
	case name == apnsImageKey && n.Image != "":
		return "is the key of the image's URL: leave out image or this key"
	}
	return ""
}

// checkAPNsBlock checks that the block agrees with the push type.
func (n *Notification) checkAPNsBlock(block map[string]any, f *Faults) {
	aps, _ := block["aps"].(map[string]any)
	switch {
	case n.PushType == PushBackground:
		for _, name := range []string{"alert", "badge", "sound"} {
			if aps[name] != nil {
				f.Add(strictjson.Pointer("apns", "aps", name), "must be left out: push type %q does not show it", PushBackground)
			}
		}
	case n.PushType == PushLiveActivity && n.has(APNs):
		needed := []string{"event", "timestamp", "content-state"}
		if aps["event"] == "start" {
			needed = append(needed, "attributes-type", "attributes")
		}
		for _, name := range needed {
			if aps[name] == nil {
				f.Add(strictjson.Pointer("apns", "aps", name), "is missing: push type %q needs it", PushLiveActivity)
			}
		}
	}
}

// apnsShape is the raw block apns: the payload. Beside "aps" its members are the
// app's own.
var apnsShape = &shape{
	kind:   anObject,
	fields: map[string]*shape{"aps": apsShape(apnsAlertShape)},
	others: custom,
	name: func(name string, value any) string {
		switch name {
		case "headers":
			return "is no part of the payload: the headers follow from push_type, priority, collapse_key and expires_at"
		case "payload":
			inner, _ := value.(map[string]any)
			if _, wrapped := inner["aps"]; wrapped {
				return "must be left out: the block apns is the payload itself, with aps in it"
			}
		case "fcm_options", "fcmOptions", "live_activity_token", "liveActivityToken":
			return "is no part of the payload: it belongs in the block fcm, in apns"
		}
		if problem := isOtherBlock(name, value); problem != "" {
			return problem
		}
		return besideAps(name)
	},
}

// besideAps returns the fault of a name beside "aps", where names are the app's own; ""
// for none.
func besideAps(name string) string {
	own := name
	switch f := foldName(name); f {
	case "contentavailable", "mutablecontent", "interruptionlevel": // in any spelling
		own = map[string]string{
			"contentavailable": "content-available", "mutablecontent": "mutable-content", "interruptionlevel": "interruption-level",
		}[f]
	}
	_, known := apsShape(nil).fields[own]
	switch {
	case name == IDKey:
		return "is reserved for the notification's ID"
	case known && (strings.Contains(own, "-") || own == "alert" || own == "badge" || own == "sound"):
		return "belongs in aps, as " + own
	}
	return ""
}

// apnsAlertShape is the dictionary aps.alert.
// Sources: Apple, "Generating a remote notification", Table 2, and for the texts
// as dictionaries and the sound "Starting and updating Live Activities with
// ActivityKit push notifications". "action" is Safari's.
var apnsAlertShape = &shape{
	kind: aString | anObject,
	fields: map[string]*shape{
		"title":             localized,
		"subtitle":          localized,
		"body":              localized,
		"launch-image":      text,
		"title-loc-key":     text,
		"title-loc-args":    texts,
		"subtitle-loc-key":  text,
		"subtitle-loc-args": texts,
		"loc-key":           text,
		"loc-args":          texts,
		"action":            text,
		"action-loc-key":    text,
		"summary-arg":       text,
		"summary-arg-count": integer,
		"sound":             text,
	},
}

// localized is a text or, in a Live Activity's alert, the key and arguments of a text.
var localized = &shape{
	kind:   aString | anObject,
	fields: map[string]*shape{"loc-key": text, "loc-args": texts},
}

// apsShape is the dictionary aps around an alert.
// Sources: Apple, "Generating a remote notification", Tables 1 and 3; "Starting
// and updating Live Activities with ActivityKit push notifications"; "Updating
// widgets with WidgetKit push notifications" (content-changed). "url-args" is
// Safari's.
func apsShape(alert *shape) *shape {
	return &shape{
		kind: anObject,
		fields: map[string]*shape{
			"alert": alert,
			"badge": count,
			"sound": {
				kind: aString | anObject,
				fields: map[string]*shape{
					"critical": zeroOne,
					"name":     text,
					"volume":   {kind: aNumber, value: fraction},
				},
			},
			"thread-id":          text,
			"category":           text,
			"content-available":  zeroOne,
			"mutable-content":    zeroOne,
			"target-content-id":  text,
			"interruption-level": {kind: aString, oneOf: []string{"passive", "active", "time-sensitive", "critical"}},
			"relevance-score":    {kind: aNumber},
			"filter-criteria":    text,
			"url-args":           texts,
			"content-changed":    flag,
			"event":              {kind: aString, oneOf: []string{"start", "update", "end"}},
			"timestamp":          integer,
			"content-state":      freeform,
			"stale-date":         integer,
			"dismissal-date":     integer,
			"attributes-type":    text,
			"attributes":         freeform,
			"input-push-token":   zeroOne,
			"input-push-channel": text,
		},
	}
}

func fraction(s string) string {
	if f, err := strconv.ParseFloat(s, 64); err != nil || f < 0 || f > 1 {
		return "must be between 0 and 1"
	}
	return ""
}
