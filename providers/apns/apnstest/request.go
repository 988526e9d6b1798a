package apnstest

import (
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/push"
)

// A request is one push as received.
type request struct {
	method, path  string
	authorization string
	topic         string
	pushType      string
	id            string
	expiration    string
	priority      string
	collapseID    string
	token         string
	duplicate     bool
	body          []byte
}

// read takes the header fields that APNs knows.
func (r *request) read(fields []hpack.HeaderField) {
	for _, f := range fields {
		var to *string
		switch f.Name {
		case ":method":
			to = &r.method
		case ":path":
			to = &r.path
		case "authorization":
			to = &r.authorization
		case "apns-topic":
			to = &r.topic
		case "apns-push-type":
			to = &r.pushType
		case "apns-id":
			to = &r.id
		case "apns-expiration":
			to = &r.expiration
		case "apns-priority":
			to = &r.priority
		case "apns-collapse-id":
			to = &r.collapseID
		default:
			continue
		}
		r.duplicate = r.duplicate || *to != ""
		*to = f.Value
	}
}

// A refusal is an answer other than 200. The zero value refuses nothing.
type refusal struct {
	status int
	reason providers.Reason
}

var (
	badTopic     = refusal{http.StatusBadRequest, apns.BadTopic}
	badPriority  = refusal{http.StatusBadRequest, apns.BadPriority}
	badToken     = refusal{http.StatusBadRequest, apns.BadDeviceToken}
	badPath      = refusal{http.StatusNotFound, apns.BadPath}
	missingTopic = refusal{http.StatusBadRequest, apns.MissingTopic}
)

// suffixes holds, for every push type, the suffix of the bundle ID in its topic.
// Source: Apple, "Sending notification requests to APNs".
var suffixes = map[string]string{
	"alert": "", "background": "", "mdm": "",
	"location":     ".location-query",
	"voip":         ".voip",
	"complication": ".complication",
	"fileprovider": ".pushkit.fileprovider",
	"liveactivity": ".push-type.liveactivity",
	"pushtotalk":   ".voip-ptt",
	"widgets":      ".push-type.widgets",
	"controls":     ".push-type.controls",
}

// checkPath refuses requests other than pushes, and sets the token.
func (r *request) checkPath() refusal {
	if r.method != http.MethodPost {
		return refusal{http.StatusMethodNotAllowed, apns.MethodNotAllowed}
	}
	token, ok := strings.CutPrefix(r.path, "/3/device/")
	if !ok {
		return badPath
	}
	r.token = token
	return refusal{}
}

// check refuses an authenticated request as APNs does. topics are the allowed bundle
// IDs; empty means any.
func (r *request) check(topics map[string]bool) refusal {
	bad := func(reason providers.Reason) refusal { return refusal{http.StatusBadRequest, reason} }
	suffix, known := suffixes[r.pushType]
	switch {
	case r.duplicate:
		return bad(apns.DuplicateHeaders)
	case !known && r.pushType != "":
		return bad(apns.InvalidPushType)
	case r.topic == "":
		return missingTopic
	}
	bundle, ok := strings.CutSuffix(r.topic, suffix)
	switch {
	case !ok || !isBundleID(bundle):
		return badTopic
	case len(topics) > 0 && !topics[bundle]:
		return bad(apns.TopicDisallowed)
	case r.id != "" && !isUUID(r.id):
		return bad(apns.BadMessageID)
	case len(r.collapseID) > 64:
		return bad(apns.BadCollapseID)
	case !isExpiration(r.expiration):
		return bad(apns.BadExpirationDate)
	}
	switch r.priority {
	case "", "10":
		if r.pushType == "background" {
			return badPriority
		}
	case "5", "1":
	default:
		return badPriority
	}
	switch {
	case r.token == "":
		return bad(apns.MissingDeviceToken)
	case !isHex(r.token):
		return badToken
	case len(r.body) == 0:
		return bad(apns.PayloadEmpty)
	case len(r.body) > r.limit():
		return refusal{http.StatusRequestEntityTooLarge, apns.PayloadTooLarge}
	}
	return refusal{}
}

// limit returns the largest body that APNs takes for the push type, in bytes.
func (r *request) limit() int {
	if r.pushType == "voip" {
		return push.MaxAPNsVoIPPayload
	}
	return push.MaxAPNsPayload
}

func isBundleID(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return s != ""
}

func isHex(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		default:
			return false
		}
	}
	return true
}

// isUUID reports whether s is a UUID in lower case.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

// isExpiration reports whether s is absent or seconds since 1970.
func isExpiration(s string) bool {
	if s == "" {
		return true
	}
	_, err := strconv.ParseUint(s, 10, 63)
	return err == nil
}
