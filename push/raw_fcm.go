package push

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// fcmShape is the raw block fcm: a message of the FCM v1 API, as far as the
// firebase SDK carries it. A field that its types do not have, or would change on
// the way, is refused here, because the SDK gives no error.
// Sources: FCM v1 REST reference, projects.messages; the SDK's messaging package.
var fcmShape = &shape{
	kind: anObject,
	fields: map[string]*shape{
		"data":         fcmDataShape,
		"notification": {kind: anObject, fields: map[string]*shape{"title": text, "body": text, "image": text}},
		"android":      fcmAndroidShape,
		"webpush":      fcmWebpushShape,
		"apns":         fcmAPNsShape,
		"fcm_options":  {kind: anObject, fields: map[string]*shape{"analytics_label": text}},
	},
	name: func(name string) string {
		switch name {
		case "token", "topic", "condition":
			return "is for the notification's targets to say"
		}
		return ""
	},
}

// fcmDataShape is the data that is handed to the app.
var fcmDataShape = &shape{
	kind:   anObject,
	others: text,
	name: func(name string) string {
		if name == IDKey {
			return "is reserved for the notification's ID"
		}
		return reservedByFCM(name)
	},
}

// reservedByFCM says what is wrong with a key of data, "" if nothing is.
// Source: FCM, "About FCM messages", data messages.
func reservedByFCM(key string) string {
	switch {
	case key == "from", key == "notification", key == "message_type",
		strings.HasPrefix(key, "google"), strings.HasPrefix(key, "gcm"):
		return `is reserved by FCM, like "from", "notification", "message_type" and all that begins with "google" or "gcm"`
	}
	return ""
}

var fcmAndroidShape = &shape{
	kind: anObject,
	fields: map[string]*shape{
		"collapse_key":            text,
		"priority":                {kind: aString, oneOf: []string{"normal", "high"}},
		"ttl":                     {kind: aString, value: isFCMTTL},
		"restricted_package_name": text,
		"data":                    fcmDataShape,
		"fcm_options":             {kind: anObject, fields: map[string]*shape{"analytics_label": text}},
		"direct_boot_ok":          flag,
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
			"image":                   text,
			"ticker":                  text,
			"sticky":                  flag,
			"event_time":              {kind: aString, value: isEventTime},
			"local_only":              flag,
			"notification_priority":   {kind: aString, oneOf: []string{"PRIORITY_MIN", "PRIORITY_LOW", "PRIORITY_DEFAULT", "PRIORITY_HIGH", "PRIORITY_MAX"}},
			"vibrate_timings":         {kind: anArray, items: fcmDuration},
			"default_vibrate_timings": flag,
			"default_sound":           flag,
			"light_settings": {
				kind:     anObject,
				required: []string{"color", "light_on_duration", "light_off_duration"},
				fields: map[string]*shape{
					"color": {
						kind:     anObject,
						required: []string{"red", "green", "blue", "alpha"},
						fields: map[string]*shape{
							"red": fcmColorPart, "green": fcmColorPart, "blue": fcmColorPart, "alpha": fcmColorPart,
						},
					},
					"light_on_duration":  fcmDuration,
					"light_off_duration": fcmDuration,
				},
			},
			"default_light_settings": flag,
			"visibility":             {kind: aString, oneOf: []string{"PRIVATE", "PUBLIC", "SECRET"}},
			"notification_count":     count,
			"proxy":                  {kind: aString, oneOf: []string{"ALLOW", "DENY", "IF_PRIORITY_LOWERED"}},
		}},
	},
}

var fcmWebpushShape = &shape{
	kind: anObject,
	fields: map[string]*shape{
		"headers": textMap,
		"data":    fcmDataShape,
		"fcm_options": {
			kind:     anObject,
			fields:   map[string]*shape{"link": {kind: aString, value: isHTTPS}},
			required: []string{"link"},
		},
		// The browser's notification options: those that the SDK does not know
		// pass through it.
		"notification": {kind: anObject, others: custom, fields: map[string]*shape{
			"actions": {kind: anArray, items: &shape{
				kind:   anObject,
				fields: map[string]*shape{"action": text, "title": text, "icon": text},
			}},
			"title":              text,
			"body":               text,
			"icon":               text,
			"badge":              text,
			"dir":                {kind: aString, oneOf: []string{"auto", "ltr", "rtl"}},
			"data":               custom,
			"image":              text,
			"lang":               text,
			"renotify":           flag,
			"requireInteraction": flag,
			"silent":             flag,
			"tag":                text,
			"timestamp":          integer,
			"vibrate":            {kind: anArray, items: integer},
		}},
	},
}

// fcmAPNsShape is for Apple devices that are reached through FCM.
var fcmAPNsShape = &shape{
	kind: anObject,
	fields: map[string]*shape{
		"headers": textMap,
		"payload": {
			kind: anObject,
			fields: map[string]*shape{"aps": apsShape(&shape{
				kind: aString | anObject,
				fields: map[string]*shape{
					"title":             text,
					"subtitle":          text,
					"body":              text,
					"loc-key":           text,
					"loc-args":          texts,
					"title-loc-key":     text,
					"title-loc-args":    texts,
					"subtitle-loc-key":  text,
					"subtitle-loc-args": texts,
					"action-loc-key":    text,
					"launch-image":      text,
				},
			})},
			others: custom,
		},
		"fcm_options":         {kind: anObject, fields: map[string]*shape{"analytics_label": text, "image": text}},
		"live_activity_token": text,
	},
}

// isFCMTTL takes whole seconds up to MaxFCMTTL: the SDK turns "3.5s" into
// "3.000000005s".
func isFCMTTL(s string) string {
	digits, ok := strings.CutSuffix(s, "s")
	seconds, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil || seconds > uint64(MaxFCMTTL/time.Second) {
		return `must be whole seconds such as "3600s", at most "2419200s"`
	}
	return ""
}

// fcmDuration is a duration that the SDK reads and writes back unchanged: it
// takes ".5" for five nanoseconds, fails on a fraction of zeros, and keeps
// milliseconds.
var fcmDuration = &shape{kind: aString, value: func(s string) string {
	digits, ok := strings.CutSuffix(s, "s")
	seconds, nanos, fractional := strings.Cut(digits, ".")
	_, err := strconv.ParseUint(seconds, 10, 32)
	if fractional {
		n, fractionErr := strconv.ParseUint(nanos, 10, 32)
		ok = ok && fractionErr == nil && len(nanos) == 9 && n > 0 && n%1e6 == 0
	}
	if !ok || err != nil {
		return `must be whole seconds such as "1s", or have nine digits down to milliseconds such as "0.500000000s"`
	}
	return ""
}}

// fcmColorPart is a colour's part that the SDK can write: it turns the colour
// into hexadecimal without leading zeros, and refuses the result when one is
// missing.
var fcmColorPart = &shape{kind: aNumber, value: func(s string) string {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f > 1 || math.IsNaN(f) || int(f*255) < 16 {
		return "must be between 16/255 (0.063) and 1"
	}
	return ""
}}

func isColor(s string) string {
	if len(s) == len("#rrggbb") && s[0] == '#' && isHex(s[1:]) {
		return ""
	}
	return "must be in the form #rrggbb"
}

// isEventTime takes the one form of an instant that the SDK reads.
func isEventTime(s string) string {
	if _, err := time.Parse("2006-01-02T15:04:05.000000000Z", s); err != nil {
		return `must be in UTC with nine digits of a second, such as "2026-11-20T20:00:00.000000000Z"`
	}
	return ""
}
