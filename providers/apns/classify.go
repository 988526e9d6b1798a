package apns

import (
	"fmt"
	"net/http"
	"time"

	"github.com/pushpace/pushpace/providers"
)

const (
	// tokenUpdateInterval is the minimum age at which APNs accepts a new provider token.
	// Source: Apple, "Establishing a token-based connection to APNs".
	tokenUpdateInterval = 20 * time.Minute
	// sameTokenInterval is the least delay for a device with too many pushes, if APNs names no
	// delay. The most is twice this.
	sameTokenInterval = 30 * time.Second
)

// An answer is the answer of APNs, or of a proxy.
type answer struct {
	status int
	// readable is true if the body was empty or JSON, as APNs' bodies are.
	readable bool
	// reason is the reason in the body; empty for none.
	reason string
	// id is the apns-id header.
	id string
	// since is the body's timestamp.
	since time.Time
	// retryAfter is the Retry-After header, within bounds; 0 for none.
	retryAfter time.Duration
}

// A verdict is the outcome for a reason of APNs, with any status.
type verdict struct {
	kind     providers.Kind
	concerns providers.Concern
	// after is the delay to use if APNs names no delay.
	after time.Duration
	// what describes, for people, the problem and the action to take.
	what string
}

const (
	badMessage     = "APNs refuses the notification's content: correct it at the producer"
	badTopic       = "check topic and that the key or certificate is allowed to push to it"
	badKey         = "check key_file, key_id and team_id"
	badCertificate = "check certificate_file and environment"
	badRequest     = "APNs does not know the request: check endpoint"
	deadToken      = "the device token is no longer valid"
	newConnection  = "a new connection may help"

	// soon is the delay if only a new connection is needed.
	soon = time.Second
)

var verdicts = map[providers.Reason]verdict{
	Unregistered:   {kind: providers.DeadToken, concerns: providers.ConcernsToken, what: deadToken},
	ExpiredToken:   {kind: providers.DeadToken, concerns: providers.ConcernsToken, what: deadToken},
	BadDeviceToken: {kind: providers.DeadToken, concerns: providers.ConcernsToken, what: "the device token is malformed or from the other environment"},

	DeviceTokenNotForTopic: {kind: providers.Rejected, concerns: providers.ConcernsToken, what: "the device token belongs to another app: check topic if this happens to several tokens"},

	BadTopic:                   {kind: providers.Misconfigured, concerns: providers.ConcernsApp, what: badTopic},
	MissingTopic:               {kind: providers.Misconfigured, concerns: providers.ConcernsApp, what: badTopic},
	TopicDisallowed:            {kind: providers.Misconfigured, concerns: providers.ConcernsApp, what: badTopic},
	InvalidProviderToken:       {kind: providers.Misconfigured, concerns: providers.ConcernsCredential, what: badKey},
	MissingProviderToken:       {kind: providers.Misconfigured, concerns: providers.ConcernsCredential, what: badKey},
	BadEnvironmentKeyIDInToken: {kind: providers.Misconfigured, concerns: providers.ConcernsCredential, what: "the key is for the other environment: check environment"},
	BadCertificate:             {kind: providers.Misconfigured, concerns: providers.ConcernsCredential, what: badCertificate},
	BadCertificateEnvironment:  {kind: providers.Misconfigured, concerns: providers.ConcernsCredential, what: badCertificate},

	BadCollapseID:      {kind: providers.Rejected, concerns: providers.ConcernsMessage, what: badMessage},
	BadExpirationDate:  {kind: providers.Rejected, concerns: providers.ConcernsMessage, what: badMessage},
	BadMessageID:       {kind: providers.Rejected, concerns: providers.ConcernsMessage, what: badMessage},
	BadPriority:        {kind: providers.Rejected, concerns: providers.ConcernsMessage, what: badMessage},
	InvalidPushType:    {kind: providers.Rejected, concerns: providers.ConcernsMessage, what: badMessage},
	DuplicateHeaders:   {kind: providers.Rejected, concerns: providers.ConcernsMessage, what: badMessage},
	MissingDeviceToken: {kind: providers.Rejected, concerns: providers.ConcernsMessage, what: badMessage},
	PayloadEmpty:       {kind: providers.Rejected, concerns: providers.ConcernsMessage, what: badMessage},
	PayloadTooLarge:    {kind: providers.Rejected, concerns: providers.ConcernsMessage, what: "the notification is too large: shorten it at the producer"},

	BadPath:          {kind: providers.Rejected, concerns: providers.ConcernsApp, what: badRequest},
	MethodNotAllowed: {kind: providers.Rejected, concerns: providers.ConcernsApp, what: badRequest},
	Forbidden:        {kind: providers.Rejected, concerns: providers.ConcernsApp, what: "APNs does not allow the request"},

	ExpiredProviderToken:        {kind: providers.Retry, concerns: providers.ConcernsCredential, what: "the provider token is too old, and is renewed"},
	UnrelatedKeyIDInToken:       {kind: providers.Retry, concerns: providers.ConcernsCredential, after: soon, what: newConnection},
	IdleTimeout:                 {kind: providers.Retry, concerns: providers.ConcernsProvider, after: soon, what: newConnection},
	Shutdown:                    {kind: providers.Retry, concerns: providers.ConcernsProvider, after: soon, what: newConnection},
	TooManyRequests:             {kind: providers.Retry, concerns: providers.ConcernsToken, after: sameTokenInterval, what: "too many notifications to one device"},
	TooManyProviderTokenUpdates: {kind: providers.Retry, concerns: providers.ConcernsCredential, after: tokenUpdateInterval, what: "too many processes create tokens with one key"},
	InternalServerError:         {kind: providers.Retry, concerns: providers.ConcernsProvider, what: "APNs is failing"},
	ServiceUnavailable:          {kind: providers.Retry, concerns: providers.ConcernsProvider, what: "APNs is failing"},
}

// classify returns the outcome of an answer. An answer with an undocumented reason
// is classified by its status.
func classify(a answer) providers.Outcome {
	if a.status == http.StatusOK && (a.readable || a.id != "") {
		return providers.Outcome{Kind: providers.Delivered, Reason: providers.OK, ProviderID: a.id}
	}
	if !a.readable {
		return unreadable(a)
	}
	reason := providers.Reason(a.reason)
	v, known := verdicts[reason]
	if !known {
		reason, v = providers.Unknown, byStatus(a.status)
	}
	o := providers.Outcome{
		Kind:     v.kind,
		Reason:   reason,
		Concerns: v.concerns,
		Err:      fmt.Errorf("APNs answered %d %s: %s", a.status, reason, v.what),
	}
	switch o.Kind {
	case providers.Retry:
		o.RetryAfter = a.retryAfter
		if o.RetryAfter == 0 || reason == TooManyProviderTokenUpdates {
			o.RetryAfter = max(v.after, a.retryAfter)
		}
	case providers.DeadToken:
		o.Since = a.since
	}
	return o
}

// concernsTopic reports whether the reason concerns the topic of a push.
func concernsTopic(reason providers.Reason) bool {
	switch reason {
	case BadTopic, MissingTopic, TopicDisallowed, DeviceTokenNotForTopic:
		return true
	}
	return false
}

// stillExpired is the outcome if APNs calls a new provider token expired. A refresh would not help,
// and APNs would not accept a newer token yet.
func stillExpired() providers.Outcome {
	return providers.Outcome{
		Kind: providers.Misconfigured, Reason: ExpiredProviderToken, Concerns: providers.ConcernsCredential,
		Err: fmt.Errorf("APNs answered %d %s to a provider token that is less than %v old: check this machine's clock",
			http.StatusForbidden, ExpiredProviderToken, tokenUpdateInterval),
	}
}

// byStatus returns the verdict on an answer of APNs without a known reason.
func byStatus(status int) verdict {
	switch {
	case status == http.StatusGone:
		return verdicts[Unregistered]
	case status == http.StatusRequestEntityTooLarge:
		return verdicts[PayloadTooLarge]
	case status == http.StatusTooManyRequests:
		return verdicts[TooManyRequests]
	case status >= 400 && status < 500:
		return verdict{kind: providers.Rejected, concerns: providers.ConcernsApp, what: "this version of pushpace does not know the reason"}
	}
	return verdict{kind: providers.Retry, concerns: providers.ConcernsProvider, what: "this version of pushpace does not know the reason"}
}

// unreadable returns the outcome of an answer that does not come from APNs. A proxy that answers
// 4xx has not passed the request on; with any other status it may have.
func unreadable(a answer) providers.Outcome {
	return providers.Outcome{
		Kind:       providers.Retry,
		Reason:     providers.Unreadable,
		RetryAfter: a.retryAfter,
		Ambiguous:  a.status < 400 || a.status >= 500,
		Concerns:   providers.ConcernsProvider,
		Err:        fmt.Errorf("the answer with status %d does not come from APNs: check for a proxy in between", a.status),
	}
}
