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

// An answer is what a push service's answer says, as far as it matters.
type answer struct {
	service push.Platform
	host    string
	// HTTP is the status code.
	HTTP int
	// Word is Apple's or Google's name of the error: BadJwtToken, UnauthorizedRegistration.
	Word string
	// Errno is Mozilla's number of the error, 0 for none.
	Errno int
	// Mismatch says that the subscription was made with another key.
	Mismatch bool
	// Doubted says that the endpoint is refused as Google does with good ones at times.
	Doubted bool
	// Page says that the body is HTML, and holds no word of the service.
	Page bool
	// RetryAfter is the delay asked for, or 0.
	RetryAfter time.Duration
	// KeyWorked says that the service has delivered with the app's key before.
	KeyWorked bool
	// ID is the service's name of the accepted message.
	ID string
}

// readAnswer reads an answer of a service. Whatever it cannot read it leaves out: of a
// stranger it reads the status alone.
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

// googlesWords are the names that are looked for in Google's pages.
var googlesWords = []string{unauthorizedRegistration, invalidTokenFormat}

const (
	unauthorizedRegistration = "UnauthorizedRegistration"
	invalidTokenFormat       = "InvalidTokenFormat"
)

// readGoogle goes by sentences: there are no codes. None is documented; they are what
// senders have published.
func (a *answer) readGoogle(body string) {
	a.Mismatch = strings.Contains(body, "VAPID credentials") && strings.Contains(body, "do not correspond to the credentials used to create")
	a.Doubted = strings.Contains(body, "invalid push subscription endpoint")
	for _, word := range googlesWords {
		if strings.Contains(body, word) {
			a.Word = word
		}
	}
}

// readMozilla reads autopush's body. Source: autopush-rs, docs/src/http.md and errors.md.
func (a *answer) readMozilla(body []byte) {
	var said struct {
		Errno   int    `json:"errno"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &said) // what it does not hold it does not say
	a.Errno = said.Errno
	a.Mismatch = said.Errno == invalidAuthentication && strings.Contains(said.Message, "VAPID public key mismatch")
}

// readApple reads Apple's body. Source: Apple, "Sending web push notifications in web apps
// and browsers".
func (a *answer) readApple(body []byte) {
	var said struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(body, &said)
	a.Word = said.Reason
	a.Mismatch = said.Reason == "VapidPkHashMismatch"
}

// messageID is what the service calls an accepted message: apns-id, X-WNS-MSG-ID, or the
// last part of Location; "" for none. Of that the rest is left out, as who has all of it may
// delete the message: with Mozilla's and others', whose rest is known, until the browser has
// fetched it. The record bounds it, and keeps what can be seen.
func messageID(h http.Header) string {
	location := h.Get("Location")
	return cmp.Or(h.Get("apns-id"), h.Get("X-WNS-MSG-ID"), location[strings.LastIndexByte(location, '/')+1:])
}
