package webpushtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/push"
)

// A refusal is an answer other than 201, before it is written in a service's format.
type refusal struct {
	status int
	// word is Apple's or Google's error name, errno Mozilla's error number, and text the message.
	word  string
	errno int
	text  string
}

func badRequest(errno int, text string) *refusal {
	return &refusal{status: http.StatusBadRequest, word: text, errno: errno, text: text}
}

func unauthorized(service push.Platform, text string) *refusal {
	return &refusal{status: unauthorizedStatus(service), word: "BadJwtToken", errno: 109, text: text}
}

// unauthorizedStatus returns the status of a service's refusal of a VAPID token.
func unauthorizedStatus(service push.Platform) int {
	if service == push.WebPushMozilla || service == push.WebPushWindows {
		return http.StatusUnauthorized
	}
	return http.StatusForbidden
}

// scriptedRefusal returns the refusal for a scripted answer. Its Reason is one of package
// webpush's, or Apple's word; without a Reason the status decides.
func scriptedRefusal(service push.Platform, a standin.Answer) *refusal {
	e := refusal{status: a.Status, text: http.StatusText(a.Status)}
	switch reason := a.Reason; {
	case reason == string(webpush.VapidMismatch):
		e.status, e.word, e.errno, e.text = cmp.Or(a.Status, http.StatusForbidden), "VapidPkHashMismatch", 109, "VAPID public key mismatch"
		if service == push.WebPushMozilla {
			e.status = cmp.Or(a.Status, http.StatusUnauthorized)
		}
		if service == push.WebPushGoogle {
			e.text = "the VAPID credentials in the authorization header do not correspond to the credentials used to create the subscriptions."
		}
	case reason == string(webpush.EndpointDoubted):
		e.status, e.text = cmp.Or(a.Status, http.StatusForbidden), "invalid push subscription endpoint"
	case reason == string(webpush.InvalidToken), reason == "" && a.Status == http.StatusBadRequest:
		e.status, e.word, e.errno, e.text = cmp.Or(a.Status, http.StatusBadRequest), "InvalidTokenFormat", 108, "Router token is invalid"
		if service == push.WebPushApple {
			e.word = "BadDeviceToken"
		}
	case reason == string(webpush.Unauthorized), reason == "" && (a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden):
		e.status, e.word, e.errno = cmp.Or(a.Status, unauthorizedStatus(service)), "BadJwtToken", 109
		if service == push.WebPushGoogle {
			e.word = ""
		}
	case reason != "":
		e.word = reason
	default:
		e.errno = errnos[a.Status]
		e.text = cmp.Or(googlesTexts[a.Status], e.text)
	}
	return &e
}

// errnos are Mozilla's error numbers by status. Source: autopush-rs, docs/src/errors.md.
var errnos = map[int]int{
	http.StatusNotFound: 102, http.StatusGone: 103, http.StatusRequestEntityTooLarge: 104, http.StatusServiceUnavailable: 202,
}

// googlesTexts are Google's messages by status.
var googlesTexts = map[int]string{
	http.StatusGone:     "push subscription has unsubscribed or expired.",
	http.StatusNotFound: "A valid push subscription endpoint should be specified in the URL as such: https://fcm.googleapis.com/wp/{ID}",
}

// write writes the refusal in the service's format.
func (e refusal) write(w http.ResponseWriter, service push.Platform) {
	switch service {
	case push.WebPushGoogle:
		if strings.HasSuffix(e.word, "Format") || strings.HasSuffix(e.word, "Registration") {
			w.Header().Set("Content-Type", "text/html; charset=UTF-8")
			w.WriteHeader(e.status)
			_, _ = fmt.Fprintf(w, "<HTML>\n<HEAD>\n<TITLE>%s</TITLE>\n</HEAD>\n<BODY>\n<H1>%[1]s</H1>\n<H2>Error %d</H2>\n</BODY>\n</HTML>\n", e.word, e.status)
			return
		}
		writeText(w, e.status, e.text)
	case push.WebPushMozilla:
		writeJSON(w, e.status, map[string]any{
			"code": e.status, "errno": cmp.Or(e.errno, 999), "error": http.StatusText(e.status), "message": e.text,
			"more_info": "http://autopush.readthedocs.io/en/latest/http.html#error-codes",
		})
	case push.WebPushApple:
		if e.word == "" {
			w.WriteHeader(e.status)
			return
		}
		writeJSON(w, e.status, map[string]string{"reason": e.word})
	case push.WebPushWindows:
		w.Header().Set("X-WNS-STATUS", "dropped")
		if e.status == http.StatusNotAcceptable || e.status == http.StatusTooManyRequests {
			w.Header().Set("X-WNS-STATUS", "appthrottled")
		}
		w.Header().Set("X-WNS-ERROR-DESCRIPTION", e.text)
		w.WriteHeader(e.status)
	default:
		writeText(w, e.status, e.text)
	}
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // the client may be gone
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
