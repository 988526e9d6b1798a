// Package wire reads FCM's credentials and answers. It links no SDK.
package wire

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// MaxAnswer bounds how much of an answer is read; FCM's answers have a few hundred bytes.
const MaxAnswer = 64 << 10

// ReadReply reads the beginning of a response's body.
func ReadReply(response *http.Response) ([]byte, error) {
	limited := io.LimitReader(response.Body, MaxAnswer)
	if n := response.ContentLength; n >= 0 && n <= MaxAnswer {
		reply := make([]byte, n)
		_, err := io.ReadFull(limited, reply)
		return reply, err
	}
	return io.ReadAll(limited)
}

// An Answer has the facts of FCM's answer that Classify needs.
type Answer struct {
	// HTTP is the status code.
	HTTP int
	// Status is google.rpc's name of the error, such as INVALID_ARGUMENT.
	Status string
	// Code is the errorCode of the FcmError detail; empty when there is none.
	Code string
	// Page is true if the body is not Google's, but a proxy's page.
	Page bool
	// RetryAfter is the delay asked for, or 0.
	RetryAfter time.Duration
	// Fields are the invalid arguments, such as message.android.ttl.
	Fields []string
	// BadToken is true if the token or FID is the invalid argument.
	BadToken bool
	// Device is true if the exhausted quota is the device's, not the project's.
	Device bool
	// TokenWorked is true if FCM has accepted the access token before.
	TokenWorked bool
	// Name is the accepted message's name.
	Name string
}

// The types of the details that are read.
const (
	typeFcmError     = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
	typeBadRequest   = "type.googleapis.com/google.rpc.BadRequest"
	typeQuotaFailure = "type.googleapis.com/google.rpc.QuotaFailure"
)

// notAToken is in FCM's message if the invalid argument is the token; no error code shows this.
// Source: "FCM error codes", example 2.
const notAToken = "not a valid FCM registration token"

// ReadAnswer reads an answer. It leaves out unreadable parts.
func ReadAnswer(status int, h http.Header, body []byte, now time.Time) Answer {
	if status >= 200 && status < 300 {
		return accepted(status, body)
	}
	a := Answer{HTTP: status, RetryAfter: providers.RetryAfter(h, now)}
	var b struct {
		Error *struct {
			Status  string `json:"status"`
			Message string `json:"message"`
			Details []struct {
				Type       string `json:"@type"`
				ErrorCode  string `json:"errorCode"`
				Violations []struct {
					Subject     string `json:"subject"`
					Description string `json:"description"`
				} `json:"violations"`
				FieldViolations []struct {
					Field string `json:"field"`
				} `json:"fieldViolations"`
			} `json:"details"`
		} `json:"error"`
	}
	err := json.Unmarshal(body, &b)
	if b.Error == nil {
		a.Page = err != nil && len(body) > 0
		return a
	}
	a.Status = b.Error.Status
	a.BadToken = strings.Contains(b.Error.Message, notAToken)
	for _, d := range b.Error.Details {
		switch d.Type {
		case typeFcmError:
			a.Code = d.ErrorCode
		case typeBadRequest:
			for _, v := range d.FieldViolations {
				a.Fields = append(a.Fields, v.Field)
				a.BadToken = a.BadToken || v.Field == "message.token" || v.Field == "message.fid"
			}
		case typeQuotaFailure:
			for _, v := range d.Violations {
				a.Device = a.Device || strings.Contains(strings.ToLower(v.Subject+" "+v.Description), "device")
			}
		}
	}
	return a
}

// accepted reads the answer to a message that FCM has taken.
func accepted(status int, body []byte) Answer {
	var b struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(body, &b) // a message without a name is accepted too
	return Answer{HTTP: status, Name: b.Name}
}

// SendRequest returns the body of the v1 API's send request.
func SendRequest(message push.FCMMessage, validateOnly bool) []byte {
	before, after := `{"message":`, `}`
	if validateOnly {
		before = `{"validate_only":true,"message":`
	}
	body := make([]byte, 0, len(before)+len(message.JSON)+len(after))
	body = append(body, before...)
	body = append(body, message.JSON...)
	return append(body, after...)
}
