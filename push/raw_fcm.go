package push

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// fcmShape is the raw block fcm: a message of the FCM v1 API, with the fields' names as the reference
// writes them. FCM also accepts camel case; here a name in camel case would not replace the derived
// field. Source: FCM v1 REST reference, projects.messages.
var fcmShape = &shape{
	kind: anObject,
	fields: map[string]*shape{
		"data":         fcmDataShape,
		"notification": {kind: anObject, fields: map[string]*shape{"title": text, "body": text, "image": fcmImage}},
		"android":      fcmAndroidShape,
		"webpush":      fcmWebpushShape,
		"apns":         fcmAPNsShape,
		"fcm_options":  {kind: anObject, fields: map[string]*shape{"analytics_label": fcmLabel}},
	},
}

// fcmDataShape is the data for the app.
var fcmDataShape = &shape{
	kind:   anObject,
	others: text,
	name: func(name string, _ any) string {
		if name == IDKey {
			return "is reserved for the notification's ID"
		}
		return reservedByFCM(name)
	},
}

// reservedByFCM returns the fault of a key of data; "" for none. Google has two lists:
// both have "from", "message_type" and the prefix "google.". The reference adds the prefix
// "gcm.notification.", the guide "gcm.", and the SDK for Android hides keys with either
// from the app. FCM accepts "notification" (firebase-php, issue 588).
// Sources: FCM v1 REST reference, Message.data; "Firebase Cloud Messaging message types".
func reservedByFCM(key string) string {
	switch {
	case key == "from", key == "message_type", strings.HasPrefix(key, "google."), strings.HasPrefix(key, "gcm."):
		return `is reserved by FCM, like "from", "message_type" and all that begins with "google." or "gcm."`
	}
	return ""
}

var fcmAndroidShape = &shape{
	kind: anObject,
	fields: map[string]*shape{
		"collapse_key":             text,
		"priority":                 {kind: aString, oneOf: []string{"normal", "high", "NORMAL", "HIGH"}},
		"ttl":                      {kind: aString, value: isFCMTTL},
		"restricted_package_name":  text,
		"data":                     fcmDataShape,
		"fcm_options":              {kind: anObject, fields: map[string]*shape{"analytics_label": fcmLabel}},
		"direct_boot_ok":           flag,
		"bandwidth_constrained_ok": flag,
		"restricted_satellite_ok":  flag,
		"notification": {kind: anObject, fields: map[string]*shape{
			"title":                   text,
			"body":                    text,
			"icon":                    text,
			"color":                   {kind: aString, value: isColor},
			"sound":                   text,
			"tag":                     text,
			"click_action":            text,
			"body_loc_key":            text,
			"body_loc_args":           texts,
			"title_loc_key":           text,
			"title_loc_args":          texts,
			"channel_id":              text,
			"image":                   fcmImage,
			"ticker":                  text,
			"sticky":                  flag,
			"event_time":              {kind: aString, value: isEventTime},
			"local_only":              flag,
			"notification_priority":   {kind: aString, oneOf: []string{"PRIORITY_UNSPECIFIED", "PRIORITY_MIN", "PRIORITY_LOW", "PRIORITY_DEFAULT", "PRIORITY_HIGH", "PRIORITY_MAX"}},
			"vibrate_timings":         {kind: anArray, items: fcmDuration},
			"default_vibrate_timings": flag,
			"default_sound":           flag,
			"light_settings": {
				kind:     anObject,
				required: []string{"color", "light_on_duration", "light_off_duration"},
				fields: map[string]*shape{
					"color": {kind: anObject, fields: map[string]*shape{
						"red": fcmColorPart, "green": fcmColorPart, "blue": fcmColorPart, "alpha": fcmColorPart,
					}},
					"light_on_duration":  fcmDuration,
					"light_off_duration": fcmDuration,
				},
			},
			"default_light_settings":    flag,
			"visibility":                {kind: aString, oneOf: []string{"VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"}},
			"notification_count":        count32,
			"bypass_proxy_notification": flag,
			"proxy":                     {kind: aString, oneOf: []string{"PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"}},
		}},
	},
}

// fcmWebpushShape allows any notification: FCM does not check the options of browsers.
var fcmWebpushShape = &shape{
	kind: anObject,
	fields: map[string]*shape{
		"headers":      {kind: anObject, others: text, name: webPushHeader},
		"data":         fcmDataShape,
		"notification": freeform,
		"fcm_options": {kind: anObject, fields: map[string]*shape{
			"link":            {kind: aString, value: isHTTPS},
			"analytics_label": fcmLabel,
		}},
	},
}

// fcmAPNsShape is for Apple devices that are reached through FCM.
var fcmAPNsShape = &shape{
	kind: anObject,
	fields: map[string]*shape{
		"headers": {kind: anObject, others: text, name: apnsHeader},
		"payload": {
			kind:   anObject,
			fields: map[string]*shape{"aps": apsShape(apnsAlertShape)},
			others: custom,
			name: func(name string, _ any) string {
				switch name {
				case "headers", "fcm_options", "live_activity_token":
					return "is no part of the payload: it belongs in apns, beside payload"
				}
				return besideAps(name)
			},
		},
		"fcm_options":         {kind: anObject, fields: map[string]*shape{"analytics_label": fcmLabel, "image": fcmImage}},
		"live_activity_token": text,
	},
}

// fcmLabel is a label for the delivery data. Source: FCM, "Understanding message
// delivery", "Adding analytics labels to messages".
var fcmLabel = &shape{kind: aString, value: func(s string) string {
	if !fcmLabelForm.MatchString(s) {
		return "must be 1 to 50 of the characters a-z, A-Z, 0-9 and -_.~%"
	}
	return ""
}}

var fcmLabelForm = regexp.MustCompile(`^[a-zA-Z0-9\-_.~%]{1,50}$`)

// fcmImage is an image's URL; empty means no image.
var fcmImage = &shape{kind: aString, value: func(s string) string {
	if u, err := url.Parse(s); s != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
		return "must be an https URL"
	}
	return ""
}}

// isFCMTTL accepts a duration up to MaxFCMTTL.
func isFCMTTL(s string) string {
	d, ok := fcmSeconds(s)
	if !ok || d > MaxFCMTTL {
		return `must be seconds such as "3600s" or "3.5s", at most "2419200s"`
	}
	return ""
}

var fcmDuration = &shape{kind: aString, value: func(s string) string {
	if _, ok := fcmSeconds(s); !ok {
		return `must be seconds with at most nine digits after the point, such as "1s" or "0.5s"`
	}
	return ""
}}

// fcmSeconds reads a duration as protocol buffers write it in JSON.
// Source: google.protobuf.Duration.
func fcmSeconds(s string) (time.Duration, bool) {
	digits, ok := strings.CutSuffix(s, "s")
	seconds, nanos, point := strings.Cut(digits, ".")
	whole, err := strconv.ParseUint(seconds, 10, 32)
	if !ok || err != nil || point && (nanos == "" || len(nanos) > 9) {
		return 0, false
	}
	fraction, err := strconv.ParseUint((nanos + "000000000")[:9], 10, 32)
	return time.Duration(whole)*time.Second + time.Duration(fraction), err == nil
}

// fcmColorPart is a part of google.type.Color.
var fcmColorPart = &shape{kind: aNumber, value: fraction}

func isColor(s string) string {
	if len(s) == len("#rrggbb") && s[0] == '#' && isHex(s[1:]) {
		return ""
	}
	return "must be in the form #rrggbb"
}

// isEventTime accepts an instant as protocol buffers read it in JSON. Source: google.protobuf.Timestamp.
func isEventTime(s string) string {
	_, after, point := strings.Cut(s, ".")
	digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
	if _, err := time.Parse(time.RFC3339, s); err != nil || strings.Contains(s, ",") || point && digits > 9 {
		return `must be in RFC 3339 with at most nine digits of a second, such as "2026-11-20T20:00:00.5Z"`
	}
	return ""
}
