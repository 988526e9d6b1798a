package push

import (
	"slices"
	"strconv"
	"strings"
)

// checkAddresses rejects tokens and FIDs of FCM targets that are certainly something else. It
// does not decide between a token and a FID: the producer does. It checks new notifications
// only: a queued one may have other, good targets.
func (n *Notification) checkAddresses(f *Faults) {
	for i, t := range n.Targets {
		if t.Platform != FCM {
			continue
		}
		field, want := "token", "an FCM registration token"
		if t.FID != "" {
			field, want = "fid", "a Firebase Installation ID"
		}
		what := otherToken(t.Address())
		switch {
		case what != "":
		case isHex(t.Address()) && len(t.Address()) >= apnsTokenDigits:
			what = "is an APNs device token"
		case t.FID != "" && isRegistrationToken(t.FID):
			what = "is an FCM registration token, which belongs in token"
		}
		if what == "" {
			continue
		}
		field = "/targets/" + strconv.Itoa(i) + "/" + field
		*f = slices.DeleteFunc(*f, func(one Fault) bool { return one.Field == field })
		f.Add(field, "%s: want %s", what, want)
	}
}

// isRegistrationToken reports whether s is certainly a registration token of FCM: most begin with a FID,
// a colon and APA91. It returns false for other tokens.
func isRegistrationToken(s string) bool { return strings.Contains(s, ":APA91") }

// apnsTokenDigits is the minimum number of hexadecimal digits in a device token of APNs. FCM's tokens of
// at least that length also have other characters.
const apnsTokenDigits = 64

// otherToken returns the kind of a text that is no token or FID of APNs or FCM; "" if it may be
// one.
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
