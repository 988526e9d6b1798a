package push

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// notificationMark stands in a payload before the notification, its last member.
// No content makes it appear earlier.
var notificationMark = []byte(`,"notification":`)

// contentDigest answers what tells the notification's content from another's, of
// a payload that holds it: the beginning of the SHA-256 of its canonical JSON, as
// it was handed over but without what says when it is worth sending. Retention
// long it must stay the same for the same content, in later versions too.
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

// canonical answers a raw block with its names sorted and its numbers in one
// form, nil for one that says nothing.
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

// sameNumbers writes numbers that are not whole, or not as such, as Go does.
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
