package push

import (
	"slices"
	"strconv"
	"strings"
)

// checkTokens refuses tokens for FCM that are certainly no token of FCM. It checks a new
// notification only: a queued one may have other, good targets.
func (n *Notification) checkTokens(f *Faults) {
	for i, t := range n.Targets {
		if t.Platform != FCM {
			continue
		}
		what := otherToken(t.Token)
		if what == "" && isHex(t.Token) && len(t.Token) >= apnsTokenDigits {
			what = "is an APNs device token"
		}
		if what == "" {
			continue
		}
		field := "/targets/" + strconv.Itoa(i) + "/token"
		*f = slices.DeleteFunc(*f, func(one Fault) bool { return one.Field == field })
		f.Add(field, "%s: want an FCM registration token", what)
	}
}

// apnsTokenDigits is how many hexadecimal digits a device token of APNs has at least. A
// token of FCM of that length has other characters.
const apnsTokenDigits = 64

// otherToken returns the kind of a text that is neither a token of APNs nor of FCM; "" if
// it may be one.
func otherToken(s string) string {
	lower := strings.ToLower(s)
	switch lower {
	case "null", "nil", "none", "undefined", "nan", "false", "true", "[object object]", "(null)", "<null>":
		return "is a program's word for no value"
	}
	switch {
	case strings.HasPrefix(lower, "exponentpushtoken["), strings.HasPrefix(lower, "expopushtoken["):
		return "is a token of Expo's push service"
	case strings.HasPrefix(lower, "/topics/"):
		return "is a topic"
	case strings.Contains(lower, " in topics"):
		return "is a condition of topics"
	case strings.HasPrefix(lower, "https://"), strings.HasPrefix(lower, "http://"):
		return "is a URL, as the endpoint of a browser's subscription is"
	case strings.HasPrefix(s, "{"), strings.HasPrefix(s, "["):
		return "is JSON"
	}
	return ""
}
