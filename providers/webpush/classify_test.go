package webpush

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

const (
	googleMismatch = "the VAPID credentials in the authorization header do not correspond to the credentials used to create the subscriptions.\n"
	googlePage     = "<HTML>\n<HEAD>\n<TITLE>UnauthorizedRegistration</TITLE>\n</HEAD>\n<BODY></BODY></HTML>"
)

func TestClassifyAnswersOfServices(t *testing.T) {
	t.Parallel()
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	const token, message, credential, app, provider = providers.ConcernsToken, providers.ConcernsMessage, providers.ConcernsCredential, providers.ConcernsApp, providers.ConcernsProvider
	for _, c := range []struct {
		service  push.Platform
		status   int
		header   http.Header
		body     string
		kind     providers.Kind
		reason   providers.Reason
		concerns providers.Concern
		wait     time.Duration
	}{
		{push.WebPushGoogle, 201, header("Location", "https://fcm.googleapis.com/0:17%31"), "", providers.Delivered, providers.OK, providers.NoConcern, 0},
		{push.WebPushOther, 202, nil, "<html>", providers.Delivered, providers.OK, providers.NoConcern, 0},

		{push.WebPushGoogle, 410, nil, "push subscription has unsubscribed or expired.\n", providers.DeadToken, Gone, token, 0},
		{push.WebPushMozilla, 404, nil, `{"code":404,"errno":102,"error":"Not Found","message":"x"}`, providers.DeadToken, NotFound, token, 0},
		{push.WebPushMozilla, 410, nil, `{"code":410,"errno":103,"error":"Gone"}`, providers.DeadToken, Gone, token, 0},
		{push.WebPushApple, 410, nil, `{"reason":"Unregistered"}`, providers.DeadToken, Gone, token, 0},
		{push.WebPushWindows, 410, nil, "", providers.DeadToken, Gone, token, 0},
		{push.WebPushOther, 404, nil, "", providers.DeadToken, NotFound, token, 0},

		{push.WebPushGoogle, 400, nil, googlePage, providers.Misconfigured, Unauthorized, credential, 0},
		{push.WebPushGoogle, 400, nil, strings.Replace(googlePage, "UnauthorizedRegistration", "InvalidTokenFormat", 1), providers.DeadToken, InvalidToken, token, 0},
		{push.WebPushGoogle, 401, nil, "", providers.Misconfigured, Unauthorized, credential, 0},
		{push.WebPushGoogle, 403, nil, "invalid JWT provided\n", providers.Misconfigured, Unauthorized, credential, 0},
		{push.WebPushGoogle, 403, nil, "invalid push subscription endpoint.", providers.Retry, EndpointDoubted, token, doubtWait},
		{push.WebPushMozilla, 401, nil, `{"code":401,"errno":109,"message":"Invalid bearer auth"}`, providers.Misconfigured, Unauthorized, credential, 0},
		{push.WebPushMozilla, 400, nil, `{"code":400,"errno":108}`, providers.DeadToken, InvalidToken, token, 0},
		{push.WebPushApple, 403, nil, `{"reason":"BadJwtToken"}`, providers.Misconfigured, Unauthorized, credential, 0},
		{push.WebPushApple, 400, nil, `{"reason":"BadVapidPublicKey"}`, providers.Misconfigured, Unauthorized, credential, 0},
		{push.WebPushWindows, 401, nil, "", providers.Misconfigured, Unauthorized, credential, 0},
		{push.WebPushOther, 401, nil, "", providers.Rejected, Unauthorized, token, 0},
		{push.WebPushOther, 403, nil, googleMismatch, providers.Rejected, Unauthorized, token, 0},

		{push.WebPushApple, 400, nil, `{"reason":"BadTtl"}`, providers.Rejected, BadRequest, message, 0},
		{push.WebPushMozilla, 400, nil, `{"code":400,"errno":110}`, providers.Rejected, BadRequest, message, 0},
		{push.WebPushGoogle, 405, nil, "", providers.Rejected, BadRequest, message, 0},
		{push.WebPushOther, 400, nil, "", providers.Rejected, BadRequest, token, 0},
		{push.WebPushMozilla, 413, nil, `{"code":413,"errno":104}`, providers.Rejected, TooLarge, message, 0},
		{push.WebPushOther, 413, nil, "", providers.Rejected, TooLarge, token, 0},

		{push.WebPushApple, 429, header("Retry-After", "120"), "", providers.Retry, TooManyRequests, token, 120 * time.Second},
		{push.WebPushMozilla, 429, nil, "", providers.Retry, TooManyRequests, token, deviceWait},
		{push.WebPushWindows, 429, nil, "", providers.Retry, Throttled, app, appWait},
		{push.WebPushWindows, 406, header("Retry-After", "900", "X-WNS-STATUS", "appthrottled"), "", providers.Retry, Throttled, app, 900 * time.Second},
		{push.WebPushGoogle, 406, nil, "", providers.Rejected, BadRequest, message, 0},

		{push.WebPushGoogle, 301, nil, "", providers.Rejected, Redirected, token, 0},
		{push.WebPushOther, 302, header("Location", "https://127.0.0.1/"), "", providers.Rejected, Redirected, token, 0},
		{push.WebPushMozilla, 503, header("Retry-After", "120"), `{"code":503,"errno":202}`, providers.Retry, ServerError, provider, 120 * time.Second},
		{push.WebPushGoogle, 500, nil, "", providers.Retry, ServerError, provider, failureWait},
		{push.WebPushGoogle, 502, nil, "<html>", providers.Retry, providers.Unreadable, provider, failureWait},
		{push.WebPushGoogle, 504, nil, "", providers.Retry, ServerError, provider, failureWait},
		{push.WebPushOther, 503, nil, "", providers.Retry, ServerError, token, failureWait},
	} {
		a := readAnswer(c.service, "push.example.net", c.status, c.header, []byte(c.body), time.Now())
		o := classify(a)
		if a.Mismatch || o.Kind != c.kind || o.Reason != c.reason || o.Concerns != c.concerns || o.RetryAfter != c.wait {
			t.Errorf("%s %d %s: %v %s, concerns %d, wait %v (%v)", c.service, c.status, c.body, o.Kind, o.Reason, o.Concerns, o.RetryAfter, o.Err)
		}
		if (o.Err == nil) != (o.Kind == providers.Delivered) {
			t.Errorf("%s %d: error %v", c.service, c.status, o.Err)
		}
		if ambiguous := c.status == 502 || c.status == 504; o.Ambiguous != ambiguous {
			t.Errorf("%s %d: ambiguous %v", c.service, c.status, o.Ambiguous)
		}
		a.KeyWorked = true
		if o := classify(a); o.Reason == Unauthorized && c.service != push.WebPushOther && (o.Kind != providers.Retry || o.Concerns != credential) {
			t.Errorf("%s %d with a key that has worked: %v", c.service, c.status, o.Kind)
		}
	}
}

// The outcome has the service's ID of a message, but not the message's URL.
func TestMessageIDLeavesOutURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ field, value, want string }{
		{"apns-id", "8DB14AFF", "8DB14AFF"}, {"X-WNS-MSG-ID", "4D1A", "4D1A"},
		{"Location", "https://fcm.googleapis.com/0:17%31", "0:17%31"}, {"Location", "0:17", "0:17"}, {"Location", "https://push.example.net/", ""},
	} {
		h := http.Header{}
		h.Set(c.field, c.value)
		if got := messageID(h); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.field, c.value, got, c.want)
		}
	}
}

func TestMismatchAnswersAreDetected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		service push.Platform
		status  int
		body    string
	}{
		{push.WebPushGoogle, 403, googleMismatch}, {push.WebPushApple, 400, `{"reason":"VapidPkHashMismatch"}`}, {push.WebPushApple, 403, `{"reason":"VapidPkHashMismatch"}`},
		{push.WebPushMozilla, 401, `{"code":401,"errno":109,"error":"Unauthorized","message":"VAPID public key mismatch"}`}, {push.WebPushWindows, 403, ""},
	} {
		if a := readAnswer(c.service, "h", c.status, nil, []byte(c.body), time.Now()); !a.Mismatch {
			t.Errorf("%s %d: %+v", c.service, c.status, a)
		}
	}
}

// Errors contain no text of a peer: it may quote the endpoint.
func FuzzAnswer(f *testing.F) {
	f.Add(400, `{"reason":"secret secret"}`, "secret")
	f.Add(401, `{"errno":109,"message":"secret secret"}`, "")
	f.Add(403, googleMismatch, "1")
	f.Fuzz(func(t *testing.T, status int, body, retryAfter string) {
		for _, service := range []push.Platform{push.WebPushGoogle, push.WebPushMozilla, push.WebPushApple, push.WebPushWindows, push.WebPushOther} {
			h := http.Header{"Retry-After": {retryAfter}}
			o := classify(readAnswer(service, "h", status, h, []byte(body), time.Now()))
			if o.Kind == 0 || o.Reason == "" || o.RetryAfter < 0 || o.RetryAfter > providers.MaxRetryAfter {
				t.Errorf("%+v", o)
			}
			if o.Err != nil && strings.Contains(o.Err.Error(), "secret secret") {
				t.Errorf("%v", o.Err)
			}
		}
	})
}
