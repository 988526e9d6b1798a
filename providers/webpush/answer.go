package webpush

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// An answer is the relevant content of a push service's HTTP response.
type answer struct {
	service push.Platform
	host    string
	// HTTP is the status code.
	HTTP int
	// Word is Apple's or Google's name of the error: BadJwtToken, UnauthorizedRegistration.
	Word string
	// Errno is Mozilla's number of the error, 0 for none.
	Errno int
	// Mismatch is true if the subscription was made with a different key.
	Mismatch bool
	// Doubted is true if Google refuses the endpoint in a way that sometimes hits valid endpoints.
	Doubted bool
	// Page is true if the body is HTML without a known error name.
	Page bool
	// RetryAfter is the delay asked for, or 0.
	RetryAfter time.Duration
	// KeyWorked is true if the service has delivered with the app's key before.
	KeyWorked bool
	// ID is the service's ID of the accepted message.
	ID string
}

// readAnswer parses a response, and leaves out fields that it cannot parse. Of an unknown
// service's response it uses only the status and Retry-After.
func readAnswer(service push.Platform, host string, status int, h http.Header, body []byte, now time.Time) answer {
	a := answer{service: service, host: host, HTTP: status, RetryAfter: providers.RetryAfter(h, now)}
	if status >= 200 && status < 300 {
		return answer{service: service, host: host, HTTP: status, ID: messageID(h)}
	}
	switch service {
	case push.WebPushGoogle:
		a.readGoogle(string(body))
	case push.WebPushMozilla:
		a.readMozilla(body)
	case push.WebPushApple:
		a.readApple(body)
	case push.WebPushWindows:
		// The sender "is not authorized to send a notification to this URI even though they
		// are authenticated". Source: Microsoft, "Troubleshooting push notifications", WNS
		// HTTP response codes.
		a.Mismatch = status == http.StatusForbidden
	}
	a.Page = a.Word == "" && bytes.HasPrefix(bytes.TrimSpace(body), []byte("<"))
	return a
}

// googlesWords are the error names to find in Google's pages.
var googlesWords = []string{unauthorizedRegistration, invalidTokenFormat}

const (
	unauthorizedRegistration = "UnauthorizedRegistration"
	invalidTokenFormat       = "InvalidTokenFormat"
)

// readGoogle matches sentences, as Google sends no codes. They are undocumented; senders have
// published them.
func (a *answer) readGoogle(body string) {
	a.Mismatch = strings.Contains(body, "VAPID credentials") && strings.Contains(body, "do not correspond to the credentials used to create")
	a.Doubted = strings.Contains(body, "invalid push subscription endpoint")
	for _, word := range googlesWords {
		if strings.Contains(body, word) {
			a.Word = word
		}
	}
}

// readMozilla parses autopush's body. Source: autopush-rs, docs/src/http.md and errors.md.
func (a *answer) readMozilla(body []byte) {
	var said struct {
		Errno   int    `json:"errno"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &said) // missing fields stay empty
	a.Errno = said.Errno
	a.Mismatch = said.Errno == invalidAuthentication && strings.Contains(said.Message, "VAPID public key mismatch")
}

// readApple parses Apple's body. Source: Apple, "Sending web push notifications in web apps and
// browsers".
func (a *answer) readApple(body []byte) {
	var said struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(body, &said)
	a.Word = said.Reason
	a.Mismatch = said.Reason == "VapidPkHashMismatch"
}

// messageID returns the service's ID of an accepted message: apns-id, X-WNS-MSG-ID, or the last
// part of Location; "" for none. It omits the rest of Location, because the whole URL allows its
// reader to delete the message. The prefix of Mozilla and others is known, so there the ID alone
// allows this until the browser has fetched the message. The record stores only short and printable
// IDs.
func messageID(h http.Header) string {
	location := h.Get("Location")
	return cmp.Or(h.Get("apns-id"), h.Get("X-WNS-MSG-ID"), location[strings.LastIndexByte(location, '/')+1:])
}
