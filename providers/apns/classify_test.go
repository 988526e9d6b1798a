package apns

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/pushpace/pushpace/providers"
)

func TestClassifyReasons(t *testing.T) {
	t.Parallel()
	const (
		dead     = providers.DeadToken
		retry    = providers.Retry
		rejected = providers.Rejected
		wrong    = providers.Misconfigured

		message    = providers.ConcernsMessage
		device     = providers.ConcernsToken
		credential = providers.ConcernsCredential
		app        = providers.ConcernsApp
		provider   = providers.ConcernsProvider
	)
	rows := []struct {
		status   int
		reason   providers.Reason
		kind     providers.Kind
		concerns providers.Concern
		after    time.Duration
	}{
		{400, BadCollapseID, rejected, message, 0},
		{400, BadDeviceToken, dead, device, 0},
		{400, BadExpirationDate, rejected, message, 0},
		{400, BadMessageID, rejected, message, 0},
		{400, BadPriority, rejected, message, 0},
		{400, BadTopic, wrong, app, 0},
		{400, DeviceTokenNotForTopic, rejected, device, 0},
		{400, DuplicateHeaders, rejected, message, 0},
		{400, IdleTimeout, retry, provider, time.Second},
		{400, InvalidPushType, rejected, message, 0},
		{400, MissingDeviceToken, rejected, message, 0},
		{400, MissingTopic, wrong, app, 0},
		{400, PayloadEmpty, rejected, message, 0},
		{400, TopicDisallowed, wrong, app, 0},
		{403, BadCertificate, wrong, credential, 0},
		{403, BadCertificateEnvironment, wrong, credential, 0},
		{403, BadEnvironmentKeyIDInToken, wrong, credential, 0},
		{403, ExpiredProviderToken, retry, credential, 0},
		{403, Forbidden, rejected, app, 0},
		{403, InvalidProviderToken, wrong, credential, 0},
		{403, MissingProviderToken, wrong, credential, 0},
		{403, UnrelatedKeyIDInToken, retry, credential, time.Second},
		{404, BadPath, rejected, app, 0},
		{405, MethodNotAllowed, rejected, app, 0},
		{410, ExpiredToken, dead, device, 0},
		{410, Unregistered, dead, device, 0},
		{413, PayloadTooLarge, rejected, message, 0},
		{429, TooManyProviderTokenUpdates, retry, credential, 20 * time.Minute},
		{429, TooManyRequests, retry, device, 30 * time.Second},
		{500, InternalServerError, retry, provider, 0},
		{503, ServiceUnavailable, retry, provider, 0},
		{503, Shutdown, retry, provider, time.Second},
	}
	covered := make(map[providers.Reason]bool)
	for _, c := range rows {
		covered[c.reason] = true
		o := classify(answer{status: c.status, readable: true, reason: string(c.reason)})
		if o.Kind != c.kind || o.Concerns != c.concerns || o.RetryAfter != c.after || o.Reason != c.reason || o.Ambiguous || o.Err == nil {
			t.Errorf("%d %s: %+v", c.status, c.reason, o)
		}
	}
	for reason := range verdicts {
		if !covered[reason] {
			t.Errorf("%s has no row", reason)
		}
	}
}

func TestClassifyWithoutKnownReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		answer   answer
		kind     providers.Kind
		reason   providers.Reason
		concerns providers.Concern
	}{
		{"unknown 400", answer{status: 400, readable: true, reason: "New"}, providers.Rejected, providers.Unknown, providers.ConcernsApp},
		{"unknown 429", answer{status: 429, readable: true, reason: "New"}, providers.Retry, providers.Unknown, providers.ConcernsToken},
		{"no reason 410", answer{status: 410, readable: true}, providers.DeadToken, providers.Unknown, providers.ConcernsToken},
		{"no reason 413", answer{status: 413, readable: true}, providers.Rejected, providers.Unknown, providers.ConcernsMessage},
		{"unknown 599", answer{status: 599, readable: true, reason: "New"}, providers.Retry, providers.Unknown, providers.ConcernsProvider},
		{"redirect", answer{status: 302, readable: true}, providers.Retry, providers.Unknown, providers.ConcernsProvider},
		{"ExpiredToken with 400", answer{status: 400, readable: true, reason: "ExpiredToken"}, providers.DeadToken, ExpiredToken, providers.ConcernsToken},
	} {
		o := classify(c.answer)
		if o.Kind != c.kind || o.Reason != c.reason || o.Concerns != c.concerns || o.Err == nil {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
}

func TestClassifyUnreadable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status    int
		ambiguous bool
	}{{200, true}, {302, true}, {403, false}, {502, true}} {
		o := classify(answer{status: c.status})
		if o.Kind != providers.Retry || o.Reason != providers.Unreadable || o.Ambiguous != c.ambiguous {
			t.Errorf("%d: %+v", c.status, o)
		}
	}
	// An accepted push is delivered even if the body is unreadable.
	if o := classify(answer{status: http.StatusOK, id: "x"}); o.Kind != providers.Delivered || o.ProviderID != "x" || o.Err != nil {
		t.Errorf("%+v", o)
	}
}

func TestClassifyDelays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status      int
		reason      providers.Reason
		asked, want time.Duration
	}{
		{503, ServiceUnavailable, 7 * time.Second, 7 * time.Second},
		{429, TooManyRequests, 7 * time.Second, 7 * time.Second},
		{429, TooManyProviderTokenUpdates, 7 * time.Second, 20 * time.Minute},
		{429, TooManyProviderTokenUpdates, time.Hour, time.Hour},
		{410, Unregistered, time.Minute, 0},
	} {
		o := classify(answer{status: c.status, readable: true, reason: string(c.reason), retryAfter: c.asked})
		if o.RetryAfter != c.want {
			t.Errorf("%s after %v: %v, want %v", c.reason, c.asked, o.RetryAfter, c.want)
		}
	}
}

// A push goes over another connection if the server refuses its stream. If the stream breaks, or
// its connection ends, APNs may have accepted the push.
func TestOnlyRefusedStreamIsUnprocessed(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		io.EOF: false, io.ErrUnexpectedEOF: false,
		http2.StreamError{Code: http2.ErrCodeInternal}: false, http2.StreamError{Code: http2.ErrCodeRefusedStream}: true,
	} {
		if unprocessed, again := notProcessed(fmt.Errorf("post: %w", err)); unprocessed != want || again != want {
			t.Errorf("%v: unprocessed %v, again %v", err, unprocessed, again)
		}
	}
}
