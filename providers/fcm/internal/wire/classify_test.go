package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
)

// errorBody returns an error body in Google's form.
func errorBody(status, message string, details ...map[string]any) string {
	text, err := json.Marshal(map[string]any{"error": map[string]any{"status": status, "message": message, "details": details}})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func withCode(code string) map[string]any {
	return map[string]any{"@type": typeFcmError, "errorCode": code}
}

func withField(field string) map[string]any {
	return map[string]any{"@type": typeBadRequest, "fieldViolations": []any{map[string]string{"field": field, "description": "secret"}}}
}

func withQuota(subject, description string) map[string]any {
	return map[string]any{"@type": typeQuotaFailure, "violations": []any{map[string]string{"subject": subject, "description": description}}}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	const (
		delivered, dead, retry, reject, wrong                     = providers.Delivered, providers.DeadToken, providers.Retry, providers.Rejected, providers.Misconfigured
		nothing, message, token, credential, ofApp, ofTheProvider = providers.NoConcern, providers.ConcernsMessage, providers.ConcernsToken, providers.ConcernsCredential, providers.ConcernsApp, providers.ConcernsProvider
	)
	const page = "<html>secret</html>"
	now := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name       string
		status     int
		retryAfter string
		body       string
		worked     bool

		kind      providers.Kind
		reason    providers.Reason
		concerns  providers.Concern
		wait      time.Duration
		ambiguous bool
	}{
		{name: "accepted", status: 200, body: `{"name":"projects/p/messages/1"}`, kind: delivered, reason: providers.OK, concerns: nothing},
		{name: "accepted without JSON", status: 200, body: page, kind: delivered, reason: providers.OK, concerns: nothing},

		// By FcmError.
		{name: "unregistered", status: 404, body: errorBody("NOT_FOUND", "secret", withCode("UNREGISTERED")), kind: dead, reason: Unregistered, concerns: token},
		{name: "sender mismatch", status: 403, body: errorBody("PERMISSION_DENIED", "secret", withCode("SENDER_ID_MISMATCH")), kind: dead, reason: SenderIDMismatch, concerns: token},
		{name: "invalid argument", status: 400, body: errorBody("INVALID_ARGUMENT", "secret", withCode("INVALID_ARGUMENT")), kind: reject, reason: InvalidArgument, concerns: message},
		{name: "invalid argument, field", status: 400, body: errorBody("INVALID_ARGUMENT", "secret", withCode("INVALID_ARGUMENT"), withField("message.android.ttl")), kind: reject, reason: InvalidArgument, concerns: message},
		{name: "invalid token by its field", status: 400, body: errorBody("INVALID_ARGUMENT", "secret", withCode("INVALID_ARGUMENT"), withField("message.token")), kind: dead, reason: InvalidToken, concerns: token},
		{name: "invalid FID by its field", status: 400, body: errorBody("INVALID_ARGUMENT", "secret", withCode("INVALID_ARGUMENT"), withField("message.fid")), kind: dead, reason: InvalidToken, concerns: token},
		{name: "invalid token by the message", status: 400, body: errorBody("INVALID_ARGUMENT", "The registration token is not a valid FCM registration token", withCode("INVALID_ARGUMENT")), kind: dead, reason: InvalidToken, concerns: token},
		{name: "quota of the project", status: 429, body: errorBody("RESOURCE_EXHAUSTED", "secret", withCode("QUOTA_EXCEEDED"), withQuota("project:1", "sends per minute")), kind: retry, reason: QuotaExceeded, concerns: ofApp, wait: time.Minute},
		{name: "quota of the device", status: 429, body: errorBody("RESOURCE_EXHAUSTED", "secret", withCode("QUOTA_EXCEEDED"), withQuota("x", "Device message rate exceeded")), kind: retry, reason: QuotaExceeded, concerns: token, wait: time.Minute},
		{name: "quota in seconds", status: 429, retryAfter: "30", body: errorBody("RESOURCE_EXHAUSTED", "secret", withCode("QUOTA_EXCEEDED")), kind: retry, reason: QuotaExceeded, concerns: ofApp, wait: 30 * time.Second},
		{name: "unavailable", status: 503, body: errorBody("UNAVAILABLE", "secret", withCode("UNAVAILABLE")), kind: retry, reason: Unavailable, concerns: ofTheProvider, wait: 10 * time.Second},
		{name: "unavailable, soon", status: 503, retryAfter: "3", body: errorBody("UNAVAILABLE", "secret", withCode("UNAVAILABLE")), kind: retry, reason: Unavailable, concerns: ofTheProvider, wait: 10 * time.Second},
		{name: "unavailable, later", status: 503, retryAfter: "120", body: errorBody("UNAVAILABLE", "secret", withCode("UNAVAILABLE")), kind: retry, reason: Unavailable, concerns: ofTheProvider, wait: 2 * time.Minute},
		{name: "internal", status: 500, body: errorBody("INTERNAL", "secret", withCode("INTERNAL")), kind: retry, reason: Internal, concerns: ofTheProvider, wait: 10 * time.Second},
		{name: "third party", status: 401, body: errorBody("UNAUTHENTICATED", "secret", withCode("THIRD_PARTY_AUTH_ERROR")), kind: wrong, reason: ThirdPartyAuthError, concerns: ofApp},
		{name: "third party, former name", status: 401, body: errorBody("UNAUTHENTICATED", "secret", withCode("APNS_AUTH_ERROR")), kind: wrong, reason: ThirdPartyAuthError, concerns: ofApp},
		{name: "unspecified", status: 400, body: errorBody("INVALID_ARGUMENT", "secret", withCode("UNSPECIFIED_ERROR")), kind: reject, reason: UnspecifiedError, concerns: message},
		{name: "unspecified, theirs", status: 500, body: errorBody("INTERNAL", "secret", withCode("UNSPECIFIED_ERROR")), kind: retry, reason: UnspecifiedError, concerns: ofTheProvider, wait: 10 * time.Second},
		{name: "unknown code", status: 404, body: errorBody("NOT_FOUND", "secret", withCode("NEW_CODE")), kind: reject, reason: providers.Unknown, concerns: message},
		{name: "unknown code, 429", status: 429, body: errorBody("X", "secret", withCode("NEW_CODE")), kind: retry, reason: providers.Unknown, concerns: ofApp, wait: time.Minute},

		// Without FcmError.
		{name: "bare 400", status: 400, body: errorBody("INVALID_ARGUMENT", "secret", withField("message.data[0].value")), kind: reject, reason: InvalidArgument, concerns: message},
		{name: "bare 400, token", status: 400, body: errorBody("INVALID_ARGUMENT", "secret", withField("message.token")), kind: dead, reason: InvalidToken, concerns: token},
		{name: "bare 400, other status", status: 400, body: errorBody("FAILED_PRECONDITION", "secret"), kind: reject, reason: providers.Unknown, concerns: message},
		{name: "bare 401", status: 401, body: errorBody("UNAUTHENTICATED", "secret"), kind: wrong, reason: Unauthenticated, concerns: credential},
		{name: "bare 401 of a token that worked", status: 401, worked: true, body: errorBody("UNAUTHENTICATED", "secret"), kind: retry, reason: Unauthenticated, concerns: credential},
		{name: "bare 403", status: 403, body: errorBody("PERMISSION_DENIED", "secret"), kind: wrong, reason: PermissionDenied, concerns: credential},
		{name: "bare 404", status: 404, body: errorBody("NOT_FOUND", "secret"), kind: wrong, reason: NotFound, concerns: ofApp},
		{name: "bare 429", status: 429, body: errorBody("RESOURCE_EXHAUSTED", "secret"), kind: retry, reason: ResourceExhausted, concerns: ofApp, wait: time.Minute},
		{name: "bare 500", status: 500, body: errorBody("INTERNAL", "secret"), kind: retry, reason: Internal, concerns: ofTheProvider, wait: 10 * time.Second},
		{name: "bare 502", status: 502, body: errorBody("UNKNOWN", "secret"), kind: retry, reason: providers.Unknown, concerns: ofTheProvider, wait: 10 * time.Second, ambiguous: true},
		{name: "bare 503", status: 503, body: errorBody("UNAVAILABLE", "secret"), kind: retry, reason: Unavailable, concerns: ofTheProvider, wait: 10 * time.Second},
		{name: "bare 504", status: 504, body: errorBody("DEADLINE_EXCEEDED", "secret"), kind: retry, reason: DeadlineExceeded, concerns: ofTheProvider, wait: 10 * time.Second, ambiguous: true},
		{name: "unknown 4xx", status: 418, body: errorBody("SECRET", ""), kind: reject, reason: providers.Unknown, concerns: message},
		{name: "unknown 5xx", status: 599, body: errorBody("X", ""), kind: retry, reason: providers.Unknown, concerns: ofTheProvider, wait: 10 * time.Second},

		// Not from FCM.
		{name: "page 400", status: 400, body: page, kind: reject, reason: providers.Unreadable, concerns: message},
		{name: "page 403", status: 403, body: page, kind: wrong, reason: providers.Unreadable, concerns: credential},
		{name: "page 404", status: 404, body: page, kind: wrong, reason: providers.Unreadable, concerns: ofApp},
		{name: "page 429", status: 429, retryAfter: "5", body: page, kind: retry, reason: providers.Unreadable, concerns: ofApp, wait: 5 * time.Second},
		{name: "page 502", status: 502, body: page, kind: retry, reason: providers.Unreadable, concerns: ofTheProvider, wait: 10 * time.Second, ambiguous: true},
	} {
		h := http.Header{}
		if c.retryAfter != "" {
			h.Set("Retry-After", c.retryAfter)
		}
		a := ReadAnswer(c.status, h, []byte(c.body), now)
		a.TokenWorked = c.worked
		o := Classify(a)
		if o.Kind != c.kind || o.Reason != c.reason || o.Concerns != c.concerns || o.RetryAfter != c.wait || o.Ambiguous != c.ambiguous {
			t.Errorf("%s: %v %s, concerns %d, wait %v, ambiguous %v", c.name, o.Kind, o.Reason, o.Concerns, o.RetryAfter, o.Ambiguous)
		}
		if (o.Err == nil) != (c.kind == delivered) {
			t.Errorf("%s: error %v", c.name, o.Err)
		}
		if o.Err != nil && (strings.Contains(o.Err.Error(), "secret") || !strings.Contains(o.Err.Error(), fmt.Sprint(c.status))) {
			t.Errorf("%s: error %v", c.name, o.Err)
		}
		common := []providers.Reason{providers.OK, providers.Unknown, providers.Unreadable}
		if !slices.Contains(common, o.Reason) && !slices.Contains(Reasons(), o.Reason) {
			t.Errorf("%s: reason %q is not listed", c.name, o.Reason)
		}
	}
}

func TestErrorHidesGoogleText(t *testing.T) {
	t.Parallel()
	o := Classify(ReadAnswer(400, nil, []byte(errorBody("INVALID_ARGUMENT", "secret", withField("message.android.ttl"), withField("message.<secret>"), withField("secret"))), time.Now()))
	const want = "FCM answered 400 INVALID_ARGUMENT, message.android.ttl: the message is invalid"
	if o.Err.Error() != want {
		t.Errorf("error %q, want %q", o.Err, want)
	}
}

func FuzzReadAnswer(f *testing.F) {
	f.Add(404, "5", []byte(errorBody("NOT_FOUND", "x", withCode("UNREGISTERED"))))
	f.Add(200, "", []byte(`{"name":1}`))
	f.Add(502, "-1", []byte("<html>"))
	f.Fuzz(func(t *testing.T, status int, retryAfter string, body []byte) {
		o := Classify(ReadAnswer(status, http.Header{"Retry-After": {retryAfter}}, body, time.Unix(0, 0)))
		if o.Kind < providers.Delivered || o.Kind > providers.Misconfigured || o.Reason == "" {
			t.Errorf("%+v", o)
		}
		if o.RetryAfter < 0 || o.RetryAfter > providers.MaxRetryAfter || o.RetryAfter > 0 && o.Kind != providers.Retry {
			t.Errorf("%+v", o)
		}
	})
}
