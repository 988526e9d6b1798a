package fcmtest

import (
	"net/http"

	"github.com/pushpace/pushpace/providers/standin"
)

// The values of an Answer's Reason besides the errorCode of an FcmError (UNREGISTERED,
// QUOTA_EXCEEDED, ..., or an unknown code).
const (
	// Bare leaves the FcmError out: the answer has only google.rpc's status.
	Bare = "bare"
	// InvalidToken is INVALID_ARGUMENT on the registration token, as FCM words it: with an
	// FcmError, and only the message names the argument.
	InvalidToken = "invalid_token"
	// InvalidTokenField is INVALID_ARGUMENT on the registration token, named as the field.
	InvalidTokenField = "invalid_token_field"
	// DeviceQuota is QUOTA_EXCEEDED for one device.
	DeviceQuota = "device_quota"
)

// A refusal is one of FCM's error answers.
type refusal struct {
	code    int
	status  string
	message string
	details []any
}

func writeError(w http.ResponseWriter, e refusal) {
	body := map[string]any{"code": e.code, "message": e.message, "status": e.status}
	if len(e.details) > 0 {
		body["details"] = e.details
	}
	writeJSON(w, e.code, map[string]any{"error": body})
}

func fcmError(code string) any {
	return map[string]string{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}
}

func badRequest(field, description string) any {
	return map[string]any{
		"@type":           "type.googleapis.com/google.rpc.BadRequest",
		"fieldViolations": []any{map[string]string{"field": field, "description": description}},
	}
}

// invalidArgument is Google's answer to a message that it cannot read.
func invalidArgument(field, description string) *refusal {
	return &refusal{http.StatusBadRequest, "INVALID_ARGUMENT", description, []any{badRequest(field, description)}}
}

var unauthenticated = refusal{
	http.StatusUnauthorized, "UNAUTHENTICATED",
	"Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.",
	[]any{map[string]any{
		"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "ACCESS_TOKEN_EXPIRED", "domain": "googleapis.com",
		"metadata": map[string]string{"service": "fcm.googleapis.com", "method": "google.firebase.fcm.v1.FcmService.SendMessage"},
	}},
}

func permissionDenied(project string) refusal {
	return refusal{
		http.StatusForbidden, "PERMISSION_DENIED",
		"Permission 'cloudmessaging.messages.create' denied on resource '//cloudresourcemanager.googleapis.com/projects/" + project + "' (or it may not exist).",
		nil,
	}
}

// refusals are FCM's answers by reason.
var refusals = map[string]refusal{
	"UNREGISTERED": {
		http.StatusNotFound, "NOT_FOUND", "Requested entity was not found.", []any{fcmError("UNREGISTERED")},
	},
	"SENDER_ID_MISMATCH": {
		http.StatusForbidden, "PERMISSION_DENIED", "SenderId mismatch", []any{fcmError("SENDER_ID_MISMATCH")},
	},
	"INVALID_ARGUMENT": {
		http.StatusBadRequest, "INVALID_ARGUMENT", "Request contains an invalid argument.",
		[]any{fcmError("INVALID_ARGUMENT"), badRequest("message.data[0].value", "Invalid value")},
	},
	InvalidToken: {
		http.StatusBadRequest, "INVALID_ARGUMENT", "The registration token is not a valid FCM registration token",
		[]any{fcmError("INVALID_ARGUMENT")},
	},
	InvalidTokenField: {
		http.StatusBadRequest, "INVALID_ARGUMENT", "Invalid registration token",
		[]any{badRequest("message.token", "Invalid registration token")},
	},
	"QUOTA_EXCEEDED": {
		http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", "Quota exceeded.", []any{fcmError("QUOTA_EXCEEDED")},
	},
	DeviceQuota: {
		http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", "Device message rate exceeded.",
		[]any{fcmError("QUOTA_EXCEEDED"), map[string]any{
			"@type":      "type.googleapis.com/google.rpc.QuotaFailure",
			"violations": []any{map[string]string{"subject": "device", "description": "Device message rate exceeded"}},
		}},
	},
	"UNAVAILABLE": {
		http.StatusServiceUnavailable, "UNAVAILABLE", "The service is currently unavailable.", []any{fcmError("UNAVAILABLE")},
	},
	"INTERNAL": {
		http.StatusInternalServerError, "INTERNAL", "Internal error encountered.", []any{fcmError("INTERNAL")},
	},
	"THIRD_PARTY_AUTH_ERROR": {
		http.StatusUnauthorized, "UNAUTHENTICATED", "Auth error from APNS or Web Push Service", []any{fcmError("THIRD_PARTY_AUTH_ERROR")},
	},
}

// usual has the reason for each status, for an Answer without a Reason.
var usual = map[int]string{
	http.StatusBadRequest:          InvalidToken,
	http.StatusForbidden:           "SENDER_ID_MISMATCH",
	http.StatusNotFound:            "UNREGISTERED",
	http.StatusGone:                "UNREGISTERED", // APNs' status; FCM says 404
	http.StatusTooManyRequests:     "QUOTA_EXCEEDED",
	http.StatusInternalServerError: "INTERNAL",
	http.StatusServiceUnavailable:  "UNAVAILABLE",
}

// statuses are google.rpc's names of the HTTP statuses.
var statuses = map[int]string{
	http.StatusBadRequest:          "INVALID_ARGUMENT",
	http.StatusUnauthorized:        "UNAUTHENTICATED",
	http.StatusForbidden:           "PERMISSION_DENIED",
	http.StatusNotFound:            "NOT_FOUND",
	http.StatusTooManyRequests:     "RESOURCE_EXHAUSTED",
	http.StatusInternalServerError: "INTERNAL",
	http.StatusServiceUnavailable:  "UNAVAILABLE",
	http.StatusGatewayTimeout:      "DEADLINE_EXCEEDED",
}

// refusalFor returns the refusal for an Answer.
func refusalFor(a standin.Answer) refusal {
	reason := a.Reason
	if reason == "" {
		if reason = usual[a.Status]; reason == "" {
			reason = Bare
		} else if a.Status == http.StatusGone {
			a.Status = http.StatusNotFound
		}
	}
	e, ok := refusals[reason]
	if !ok {
		e = refusal{status: statuses[a.Status], message: http.StatusText(a.Status)}
		if reason != Bare {
			e.details = []any{fcmError(reason)}
		}
		if e.status == "" {
			e.status = "UNKNOWN"
		}
	}
	e.code = a.Status
	return e
}
