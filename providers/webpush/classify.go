package webpush

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// Retry delays for answers without Retry-After.
const (
	// deviceWait applies to too many messages to one device.
	deviceWait = 30 * time.Second
	// appWait applies to too many messages of the app at Windows.
	appWait = 15 * time.Minute
	// doubtWait applies to an endpoint that Google refuses temporarily, for up to a day.
	doubtWait = 30 * time.Minute
	// mismatchWait applies to a key mismatch while the app's key is not known to be right or
	// wrong.
	mismatchWait = time.Minute
	// failureWait applies to a failing service.
	failureWait = 10 * time.Second
)

// Mozilla's error numbers. Source: autopush-rs, docs/src/errors.md.
const (
	invalidRouterToken    = 108
	invalidAuthentication = 109
)

// classify returns the outcome of an answer. It is pure; mismatchOutcome handles key mismatches. An
// unknown service's answer concerns only its own subscriptions.
func classify(a answer) providers.Outcome {
	if a.HTTP >= 200 && a.HTTP < 300 {
		return providers.Outcome{Kind: providers.Delivered, Reason: providers.OK, ProviderID: a.ID}
	}
	o, ok := byWord(a)
	if !ok {
		o = byStatus(a)
	}
	if a.service == push.WebPushOther {
		if o.Kind == providers.Misconfigured {
			o.Kind = providers.Rejected
		}
		o.Concerns = providers.ConcernsToken
	}
	o.Err = describe(a, o)
	return o
}

// byWord classifies by the service's own error name or number.
func byWord(a answer) (providers.Outcome, bool) {
	switch {
	case a.Errno == invalidRouterToken, a.Word == invalidTokenFormat:
		return dead(InvalidToken), true
	case a.Doubted:
		return providers.Outcome{Kind: providers.Retry, Reason: EndpointDoubted, Concerns: providers.ConcernsToken, RetryAfter: doubtWait}, true
	case a.Errno == invalidAuthentication, a.Word == unauthorizedRegistration, a.Word == "BadJwtToken", a.Word == "BadVapidPublicKey":
		return unauthorized(a), true
	}
	return providers.Outcome{}, false
}

// byStatus classifies by the HTTP status. Source: RFC 8030, sections 5 and 7; RFC 8292, section
// 4.
func byStatus(a answer) providers.Outcome {
	switch a.HTTP {
	case http.StatusNotFound:
		return dead(NotFound)
	case http.StatusGone:
		return dead(Gone)
	case http.StatusUnauthorized, http.StatusForbidden:
		return unauthorized(a)
	case http.StatusRequestEntityTooLarge:
		return providers.Outcome{Kind: providers.Rejected, Reason: TooLarge, Concerns: providers.ConcernsMessage}
	case http.StatusTooManyRequests, http.StatusNotAcceptable:
		if a.service == push.WebPushWindows { // Windows also sends 406
			return retry(a, Throttled, providers.ConcernsApp, appWait)
		}
		if a.HTTP == http.StatusTooManyRequests {
			return retry(a, TooManyRequests, providers.ConcernsToken, deviceWait)
		}
	}
	switch {
	case a.HTTP >= 500:
		o := retry(a, ServerError, providers.ConcernsProvider, failureWait)
		if a.Page {
			o.Reason = providers.Unreadable
		}
		// A gateway does not know whether the service has processed the request.
		o.Ambiguous = a.Page || a.HTTP == http.StatusBadGateway || a.HTTP == http.StatusGatewayTimeout
		return o
	case a.HTTP < 400:
		return providers.Outcome{Kind: providers.Rejected, Reason: Redirected, Concerns: providers.ConcernsToken}
	}
	return providers.Outcome{Kind: providers.Rejected, Reason: BadRequest, Concerns: providers.ConcernsMessage}
}

func dead(reason providers.Reason) providers.Outcome {
	return providers.Outcome{Kind: providers.DeadToken, Reason: reason, Concerns: providers.ConcernsToken}
}

func retry(a answer, reason providers.Reason, concerns providers.Concern, wait time.Duration) providers.Outcome {
	if a.RetryAfter != 0 {
		wait = a.RetryAfter
	}
	return providers.Outcome{Kind: providers.Retry, Reason: reason, Concerns: concerns, RetryAfter: wait}
}

// unauthorized returns the outcome of a refused VAPID token. If the key has worked, the token has
// expired early and the next token works, or only this subscription is affected: other pushes
// continue. The concern is still the credential: if nearly all pushes fail, for example because
// this machine's clock is wrong, pushes wait and few probe.
func unauthorized(a answer) providers.Outcome {
	o := providers.Outcome{Kind: providers.Misconfigured, Reason: Unauthorized, Concerns: providers.ConcernsCredential}
	if a.KeyWorked {
		o.Kind = providers.Retry
	}
	return o
}

// mismatchOutcome returns the outcome for a subscription that was made with a different key. If the
// app's key has worked at the service, the subscription is dead. If the key is known to be wrong,
// the credential is at fault. Before either is known, the push is retried.
func mismatchOutcome(a answer, delivered, wrong bool) providers.Outcome {
	o := providers.Outcome{Kind: providers.Retry, Reason: VapidMismatch, Concerns: providers.ConcernsToken, RetryAfter: mismatchWait}
	switch {
	case delivered:
		o.Kind, o.RetryAfter = providers.DeadToken, 0
	case wrong:
		o.Kind, o.RetryAfter, o.Concerns = providers.Misconfigured, 0, providers.ConcernsCredential
	}
	o.Err = describe(a, o)
	return o
}

// describe returns an error with the answer and the remedy. It repeats only numbers and single
// words of the answer: a service's text may quote the endpoint.
func describe(a answer, o providers.Outcome) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s answered %d", a.host, a.HTTP)
	if isWord(a.Word) {
		b.WriteString(" " + a.Word)
	}
	if a.Errno != 0 {
		fmt.Fprintf(&b, " errno %d", a.Errno)
	}
	if a.Page {
		b.WriteString(" with a page")
	}
	if hint := hints[o.Reason]; hint != "" {
		b.WriteString(": " + hint)
	}
	return fmt.Errorf("%s", b.String())
}

var hints = map[providers.Reason]string{
	NotFound:      "the subscription is gone; delete it",
	Gone:          "the subscription is gone; delete it",
	InvalidToken:  "the endpoint is malformed; delete it",
	VapidMismatch: "the subscription was made with a public key that is not this app's; compare the site's applicationServerKey with `pushpace vapid public`",
	Unauthorized:  "check subject, private_key_file and this machine's clock",
	BadRequest:    "the service refuses the message",
	TooLarge:      "the message is too large for this browser; 2 kB fit every browser",
	Redirected:    "redirects are not followed",
}

// isWord reports whether s is a name such as BadJwtToken.
func isWord(s string) bool {
	return s != "" && len(s) <= 40 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}
