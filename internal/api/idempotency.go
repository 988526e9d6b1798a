package api

import (
	"net/http"
	"strings"

	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/push"
)

// idempotencyHeader is the header with the ID of a notification without an ID in its body.
// Source: draft-ietf-httpapi-idempotency-key-header.
const idempotencyHeader = "Idempotency-Key"

var (
	errBadKey    = &problem{Status: http.StatusBadRequest, Detail: "The header Idempotency-Key must be one ID of 1 to 128 printable bytes without a space at its ends, in double quotes or bare."}
	errKeyOfMany = &problem{Status: http.StatusBadRequest, Detail: "The header Idempotency-Key is for one notification alone: give each of an array its own id."}
)

// readKey returns the ID in the header: a String of structured fields, or the String's
// content without quotes; "" without the header.
func readKey(h http.Header) (string, error) {
	values := h[idempotencyHeader]
	if len(values) == 0 {
		return "", nil
	}
	key, ok := values[0], true
	if strings.HasPrefix(key, `"`) {
		key, ok = unquote(key)
	}
	if !ok || len(values) > 1 || !push.ValidID(key) || names.Ends(key) != "" {
		return "", errBadKey
	}
	return key, nil
}

// unquote returns the value of a structured field's String, and whether the text is a String.
// The caller checks that the value is an ID. Source: RFC 9651, section 3.3.3.
func unquote(text string) (string, bool) {
	inner, closed := strings.CutSuffix(text[1:], `"`)
	if !closed {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		c := inner[i]
		if c == '\\' && i+1 < len(inner) && (inner[i+1] == '"' || inner[i+1] == '\\') {
			i++
			c = inner[i]
		} else if c == '"' || c == '\\' {
			return "", false
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// takeKey sets the notification's ID to the header's. A different ID in the body is a fault.
func takeKey(n *push.Notification, key string) error {
	switch {
	case key == "" || n.ID == key:
	case n.ID != "":
		return push.Faults{{Field: "/id", Problem: "differs from the header Idempotency-Key"}}
	default:
		n.ID = key
	}
	return nil
}
