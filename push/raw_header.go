package push

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// headerName is a field name of HTTP. Source: RFC 9110, section 5.1.
var headerName = regexp.MustCompile("^[a-zA-Z0-9!#$%&'*+.^_`|~-]+$")

// header returns the fault of a header that FCM passes on; "" for none. The shape checks
// the value's type, and null removes the header.
func header(name string, value any, form func(name, value string) string) string {
	s, isText := value.(string)
	switch {
	case !headerName.MatchString(name):
		return "is not a header's name"
	case !isText:
		return ""
	case !isPrintable(s, ' ') || s != strings.TrimSpace(s):
		return "must be printable ASCII without spaces at the ends"
	}
	return form(strings.ToLower(name), s)
}

// apnsHeader returns the fault of a header of APNs; "" for none. Source: Apple, "Sending notification
// requests to APNs".
func apnsHeader(name string, value any) string {
	return header(name, value, func(name, s string) string {
		switch name {
		case "apns-priority":
			if s != "1" && s != "5" && s != "10" {
				return "must be 1, 5 or 10"
			}
		case "apns-expiration":
			if _, err := strconv.ParseUint(s, 10, 63); err != nil {
				return "must be seconds since 1970 in digits, or 0"
			}
		case "apns-push-type":
			if _, ok := topicSuffixes[s]; !ok {
				return "is not one of APNs' push types, such as alert or background"
			}
		case "apns-collapse-id":
			if s == "" || len(s) > MaxCollapseKeyBytes {
				return "must be 1 to 64 bytes"
			}
		}
		return ""
	})
}

// webPushTopicForm is the value of the header Topic. Source: RFC 8030, section 5.4.
var webPushTopicForm = regexp.MustCompile("^[a-zA-Z0-9_-]{1,32}$")

// webPushHeader returns the fault of a header of Web Push; "" for none. Sources: RFC 8030, section 5;
// FCM, "Set the lifespan of a message".
func webPushHeader(name string, value any) string {
	return header(name, value, func(name, s string) string {
		switch name {
		case "ttl":
			if seconds, err := strconv.ParseUint(s, 10, 32); err != nil || seconds > uint64(MaxFCMTTL/time.Second) {
				return "must be seconds from 0 to 2419200"
			}
		case "urgency":
			switch s {
			case "very-low", "low", "normal", "high":
			default:
				return "must be very-low, low, normal or high"
			}
		case "topic":
			if !webPushTopicForm.MatchString(s) {
				return "must be 1 to 32 characters of base64url"
			}
		}
		return ""
	})
}
