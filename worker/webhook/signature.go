package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// sign sets the headers of Standard Webhooks (standardwebhooks.com) for a body sent at the time at. The
// ID is a hash of the body, so a retry of the same reports has the same ID, even by another deliverer. If
// a retry combines reports differently, the ID changes; the reports' entries do not.
func sign(header http.Header, keys [][]byte, body []byte, at time.Time) {
	hash := sha256.Sum256(body)
	id, seconds := "msg_"+hex.EncodeToString(hash[:16]), strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(id + "." + seconds + "."))
		_, _ = mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", seconds)
	header.Set("webhook-signature", strings.Join(signatures, " "))
}
