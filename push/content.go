package push

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// notificationMark precedes the notification, a payload's last member. Nothing before it can contain this
// text.
var notificationMark = []byte(`,"notification":`)

// contentDigest returns the first 8 bytes of the SHA-256 of the notification's canonical JSON,
// without its times. The same content must have the same digest during the retention, also in
// later versions. The payload holds the notification.
func contentDigest(n *Notification, payload []byte) ([]byte, error) {
	const size = 8 // only contents under one ID are compared
	content := payload[bytes.Index(payload, notificationMark)+len(notificationMark) : len(payload)-len("}")]
	if !n.NotBefore.IsZero() || !n.ExpiresAt.IsZero() || n.TimeZone != "" || n.namesBlock() {
		bare := *n
		bare.NotBefore, bare.ExpiresAt, bare.TimeZone = time.Time{}, time.Time{}, ""
		for _, p := range platforms {
			raw := p.block(&bare)
			var err error
			if *raw, err = canonical(*raw); err != nil {
				return nil, err
			}
		}
		var err error
		if content, err = strictjson.Encode(&bare); err != nil {
			return nil, err
		}
	}
	sum := sha256.Sum256(content)
	return sum[:size], nil
}

// canonical returns a raw block with sorted names and numbers in one form; nil for an absent
// block.
func canonical(raw json.RawMessage) (json.RawMessage, error) {
	if absent(raw) {
		return nil, nil
	}
	var v any
	if err := strictjson.Decode(raw, &v); err != nil {
		return nil, err
	}
	return strictjson.Encode(sameNumbers(v))
}

// sameNumbers writes numbers other than plain integers in Go's form.
func sameNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = sameNumbers(v[name])
		}
	case []any:
		for i := range v {
			v[i] = sameNumbers(v[i])
		}
	case json.Number:
		if _, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return v
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
	}
	return v
}
