package push

import (
	"bytes"
	"encoding/json"

	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// spliceJSON joins two JSON objects that have no name in common into one, b's
// members after a's.
func spliceJSON(a, b []byte) []byte {
	if len(a) == len("{}") {
		return b
	}
	if len(b) == len("{}") {
		return a
	}
	a[len(a)-1] = ','
	return append(a, b[1:]...)
}

// overlay lays a raw block over a derived object and returns the result: members
// of objects are merged at every depth, null deletes a member, and anything else
// replaces the derived value, as in RFC 7396.
func overlay(derived []byte, raw json.RawMessage) (map[string]any, error) {
	var target, patch map[string]any
	if err := strictjson.Decode(derived, &target); err != nil {
		return nil, err
	}
	if err := strictjson.Decode(raw, &patch); err != nil {
		return nil, err
	}
	return mergePatch(target, patch), nil
}

func mergePatch(target, patch map[string]any) map[string]any {
	if target == nil {
		target = make(map[string]any, len(patch))
	}
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(target, name)
		case map[string]any:
			inner, _ := target[name].(map[string]any)
			target[name] = mergePatch(inner, value)
		default:
			target[name] = value
		}
	}
	return target
}

// absent reports whether a raw block is missing or null.
func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null"
}
