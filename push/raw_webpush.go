package push

import "strings"

// webPushVersion marks a message of Declarative Web Push.
// Source: W3C, Push API, "Declarative push message".
const webPushVersion = "8030"

// webPushShape is the raw block webpush: the payload. It may have members of the site's own.
var webPushShape = &shape{
	kind: anObject,
	fields: map[string]*shape{
		"web_push":     {kind: anInt, value: isWebPushVersion},
		"notification": webPushNotificationShape,
		"app_badge":    {kind: anInt | aString, value: isDigits},
		"mutable":      flag,
	},
	others: custom,
	name: func(name string, value any) string {
		inner, _ := value.(map[string]any)
		_, shown := inner["notification"]
		_, declared := inner["web_push"]
		switch {
		case name == "headers":
			return "is no part of the payload: the headers follow from priority, collapse_key and expires_at"
		case name == "payload" && (shown || declared):
			return "must be left out: the block webpush is the payload itself, with notification in it"
		case name == "aps":
			return "is no part of the payload: it belongs in the block apns"
		case name == "fcm_options", name == "fcmOptions":
			return "is no part of the payload: it belongs in the block fcm, in webpush"
		}
		if problem := isOtherBlock(name, value); problem != "" {
			return problem
		}
		return webPushName(name, value)
	},
}

// webPushNotificationShape is the argument of a service worker's showNotification.
// Source: WHATWG, Notifications API, NotificationOptions; W3C, Push API, for navigate.
var webPushNotificationShape = &shape{
	kind: anObject,
	fields: map[string]*shape{
		"title":              text,
		"body":               text,
		"lang":               text,
		"dir":                {kind: aString, oneOf: []string{"auto", "ltr", "rtl"}},
		"tag":                text,
		"icon":               text,
		"badge":              text, // an icon's URL
		"image":              text,
		"navigate":           {kind: aString, value: isHTTPS},
		"silent":             flag,
		"renotify":           flag,
		"requireInteraction": flag,
		"timestamp":          count,
		"vibrate":            {kind: anInt | anArray, items: count},
		"actions": {kind: anArray, items: &shape{
			kind:     anObject,
			fields:   map[string]*shape{"action": text, "title": text, "icon": text, "navigate": {kind: aString, value: isHTTPS}},
			required: []string{"action", "title"},
		}},
		"data": {kind: anObject, others: custom, name: webPushName},
	},
}

func webPushName(name string, _ any) string {
	if name == IDKey {
		return "is reserved for the notification's ID"
	}
	return ""
}

func isWebPushVersion(s string) string {
	if s != webPushVersion {
		return "must be " + webPushVersion
	}
	return ""
}

func isDigits(s string) string {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return "must be a number of at least 0"
	}
	return ""
}
