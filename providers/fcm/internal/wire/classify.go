package wire

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pushpace/pushpace/providers"
)

// The minimum delays that Google asks of senders ("Best practices when sending FCM
// messages at scale").
const (
	// quotaWait is the delay after a 429 without a Retry-After.
	quotaWait = time.Minute
	// failureWait is the least delay before the first retry after a 5xx.
	failureWait = 10 * time.Second
)

// Classify returns the outcome of an answer. It is pure.
func Classify(a Answer) providers.Outcome {
	if a.HTTP >= 200 && a.HTTP < 300 {
		// The status decides: the message is sent, even if the body cannot be read.
		return providers.Outcome{Kind: providers.Delivered, Reason: providers.OK, ProviderID: a.Name}
	}
	o, ok := byCode(a)
	if !ok {
		o = byStatus(a)
	}
	o.Err = describe(a, o)
	return o
}

// byCode classifies by the FcmError detail. It returns false without a known code.
func byCode(a Answer) (providers.Outcome, bool) {
	switch reason := providers.Reason(a.Code); reason {
	case Unregistered, SenderIDMismatch:
		return providers.Outcome{Kind: providers.DeadToken, Reason: reason, Concerns: providers.ConcernsToken}, true
	case InvalidArgument:
		return invalidArgument(a), true
	case QuotaExceeded:
		return quota(a, reason), true
	case Unavailable, Internal:
		return failure(a, reason), true
	case ThirdPartyAuthError, "APNS_AUTH_ERROR": // the second is the former name of the first
		return Misconfigured(ThirdPartyAuthError, providers.ConcernsApp), true
	}
	return providers.Outcome{}, false
}

// byStatus classifies by the HTTP status, without a known FcmError.
func byStatus(a Answer) providers.Outcome {
	switch {
	case a.HTTP == http.StatusTooManyRequests:
		return quota(a, named(a, ResourceExhausted))
	case a.HTTP == http.StatusInternalServerError:
		return failure(a, named(a, Internal))
	case a.HTTP == http.StatusServiceUnavailable:
		return failure(a, named(a, Unavailable))
	case a.HTTP == http.StatusGatewayTimeout:
		return failure(a, named(a, DeadlineExceeded))
	case a.HTTP >= 500:
		return failure(a, named(a, providers.Unknown))
	case a.HTTP < 400:
		// A redirect is not followed: FCM sends none.
		return Misconfigured(providers.Unreadable, providers.ConcernsApp)
	case a.Code != "":
		return Rejected(named(a, providers.Unknown))
	}
	switch a.HTTP {
	case http.StatusBadRequest:
		if a.Status == string(InvalidArgument) {
			return invalidArgument(a)
		}
	case http.StatusUnauthorized:
		if a.TokenWorked {
			// The access token ended before its expiry; the next token will work.
			return providers.Outcome{Kind: providers.Retry, Reason: named(a, Unauthenticated), Concerns: providers.ConcernsCredential}
		}
		return Misconfigured(named(a, Unauthenticated), providers.ConcernsCredential)
	case http.StatusForbidden:
		return Misconfigured(named(a, PermissionDenied), providers.ConcernsCredential)
	case http.StatusNotFound:
		// Without FcmError it is the project or the URL that is not found.
		return Misconfigured(named(a, NotFound), providers.ConcernsApp)
	case http.StatusRequestEntityTooLarge:
	default:
		if a.Page {
			// The answer is not FCM's: a proxy blocks all messages.
			return Misconfigured(providers.Unreadable, providers.ConcernsApp)
		}
	}
	return Rejected(named(a, providers.Unknown))
}

// named returns the reason of an answer: reason, unless the code or the page has its own.
func named(a Answer, reason providers.Reason) providers.Reason {
	switch a.Code {
	case "":
		if a.Page {
			return providers.Unreadable
		}
		return reason
	case string(UnspecifiedError):
		return UnspecifiedError
	}
	return providers.Unknown
}

func invalidArgument(a Answer) providers.Outcome {
	if a.BadToken {
		return providers.Outcome{Kind: providers.DeadToken, Reason: InvalidToken, Concerns: providers.ConcernsToken}
	}
	return Rejected(InvalidArgument)
}

func quota(a Answer, reason providers.Reason) providers.Outcome {
	o := providers.Outcome{Kind: providers.Retry, Reason: reason, RetryAfter: a.RetryAfter, Concerns: providers.ConcernsApp}
	if a.Device {
		o.Concerns = providers.ConcernsToken
	}
	if o.RetryAfter == 0 {
		o.RetryAfter = quotaWait
	}
	return o
}

// failure returns the outcome of a provider's failure. After a 502, a 504 or a page that is not
// FCM's, a gateway has answered in FCM's place, and FCM may have accepted the message.
func failure(a Answer, reason providers.Reason) providers.Outcome {
	return providers.Outcome{
		Kind: providers.Retry, Reason: reason, Concerns: providers.ConcernsProvider,
		RetryAfter: max(a.RetryAfter, failureWait),
		Ambiguous:  a.Page || a.HTTP == http.StatusBadGateway || a.HTTP == http.StatusGatewayTimeout,
	}
}

func Rejected(reason providers.Reason) providers.Outcome {
	return providers.Outcome{Kind: providers.Rejected, Reason: reason, Concerns: providers.ConcernsMessage}
}

func Misconfigured(reason providers.Reason, concerns providers.Concern) providers.Outcome {
	return providers.Outcome{Kind: providers.Misconfigured, Reason: reason, Concerns: concerns}
}

// describe returns an error with the answer and the action to take. It repeats no part of the
// answer that could hold a registration token or a part of the message, because Google's text
// quotes both.
func describe(a Answer, o providers.Outcome) error {
	var b strings.Builder
	fmt.Fprintf(&b, "FCM answered %d", a.HTTP)
	if isWord(a.Status) {
		b.WriteString(" " + a.Status)
	}
	if isWord(a.Code) && a.Code != a.Status {
		b.WriteString(" " + a.Code)
	}
	if a.Page {
		b.WriteString(" with a page that is not FCM's")
	}
	for i, field := range a.Fields {
		if i < maxFields && isPath(field) {
			b.WriteString(", " + field)
		}
	}
	if hint := hints[o.Reason]; hint != "" && o.Kind != providers.Retry {
		b.WriteString(": " + hint)
	}
	return fmt.Errorf("%s", b.String())
}

const maxFields = 5

var hints = map[providers.Reason]string{
	Unregistered:         "the app instance is gone or not registered; delete the token or FID",
	SenderIDMismatch:     "the token or FID belongs to another Firebase project",
	InvalidToken:         "the token or FID is malformed; delete it",
	InvalidArgument:      "the message is invalid",
	ThirdPartyAuthError:  "the APNs key or the web push key in the Firebase project is missing or wrong",
	Unauthenticated:      "FCM does not accept the service account's access token",
	PermissionDenied:     "the service account may not send for this project, or the FCM API is off; check project_id and the account's roles",
	NotFound:             "there is no such project; check project_id and endpoint",
	providers.Unreadable: "check endpoint, and for a proxy in front of FCM",
}

// isWord reports whether s is one of Google's names in capitals.
func isWord(s string) bool {
	return s != "" && len(s) <= 40 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}

// isPath reports whether s is a path of fields, such as message.data[0].value.
func isPath(s string) bool {
	if !strings.HasPrefix(s, "message") {
		return false
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.[]"
	return len(s) <= 80 && strings.Trim(s, letters) == ""
}
