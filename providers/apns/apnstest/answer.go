package apnstest

import (
	"net/http"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/standin"
)

// usual holds the reason for each status, for an Answer without a Reason.
var usual = map[int]providers.Reason{
	http.StatusBadRequest:            apns.BadDeviceToken,
	http.StatusForbidden:             apns.InvalidProviderToken,
	http.StatusNotFound:              apns.BadPath,
	http.StatusMethodNotAllowed:      apns.MethodNotAllowed,
	http.StatusGone:                  apns.Unregistered,
	http.StatusRequestEntityTooLarge: apns.PayloadTooLarge,
	http.StatusTooManyRequests:       apns.TooManyRequests,
	http.StatusInternalServerError:   apns.InternalServerError,
	http.StatusServiceUnavailable:    apns.ServiceUnavailable,
}

// page is a proxy's answer.
const page = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"

// A reply is the answer on a stream.
type reply struct {
	status      int
	id          string
	contentType string
	retryAfter  string
	body        []byte
}

// refuse returns APNs' reply to a refused request.
func refuse(r refusal, id string) reply {
	return replyTo(standin.Answer{Status: r.status, Reason: string(r.reason)}, id, time.Time{})
}

// replyTo returns the reply for a; an answer with a fault other than Page has no reply.
func replyTo(a standin.Answer, id string, now time.Time) reply {
	if a.Fault == standin.Page {
		status := a.Status
		if status == 0 {
			status = http.StatusBadGateway
		}
		return reply{status: status, contentType: "text/html", retryAfter: a.RetryAfterHeader(now), body: []byte(page)}
	}
	if a.Accepts() {
		return reply{status: http.StatusOK, id: id}
	}
	reason := a.Reason
	if reason == "" {
		reason = string(usual[a.Status])
	}
	body := append([]byte(nil), `{"reason":`...)
	body = strconv.AppendQuote(body, reason)
	if a.Status == http.StatusGone {
		since := a.Since
		if since.IsZero() {
			since = now.Add(-time.Hour)
		}
		body = append(body, `,"timestamp":`...)
		body = strconv.AppendInt(body, since.UnixMilli(), 10)
	}
	body = append(body, '}')
	return reply{status: a.Status, id: id, contentType: "application/json", retryAfter: a.RetryAfterHeader(now), body: body}
}
