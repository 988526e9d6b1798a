package push

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
)

// SignatureHeader is the header of a webhook's signature, as in
//
//	Pushpace-Signature: t=1795219200,v1=5257a869…
//
// t is the instant of sending in Unix seconds; v1 the HMAC-SHA256, in hex, of
// that number as written, a full stop, and the body. What receivers do not know
// after another comma they ignore.
const SignatureHeader = "Pushpace-Signature"

// Sign returns the signature of a body that is sent at that instant.
func Sign(secret, body []byte, at time.Time) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(signature(secret, t, body))
}

// ErrSignature means that a body was not signed with the secret, or too long ago.
var ErrSignature = errors.New("the signature is missing, wrong or too old")

// VerifySignature checks what a webhook received: that the header is of the body
// and the secret, and was made within the tolerance of now. It answers nil or
// ErrSignature.
func VerifySignature(secret, body []byte, header string, now time.Time, tolerance time.Duration) error {
	var t, v1 string
	for part := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "t":
			t = value
		case "v1":
			v1 = value
		}
	}
	seconds, err := strconv.ParseInt(t, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return ErrSignature
	}
	given, err := hex.DecodeString(v1)
	if err != nil || !hmac.Equal(given, signature(secret, t, body)) {
		return ErrSignature
	}
	return nil
}

func signature(secret []byte, t string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(t + "."))
	_, _ = mac.Write(body)
	return mac.Sum(nil)
}
