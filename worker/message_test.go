package worker

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func TestTaskOf(t *testing.T) {
	t.Parallel()
	text := func(b []byte, field protowire.Number, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), value)
	}
	number := func(b []byte, field protowire.Number, value uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), value)
	}
	fresh := number(text(text(text(nil, 1, "pushpace:notification"), payloadField, "{}"), 3, "id"), 5, 25)
	for name, tt := range map[string]struct {
		message []byte
		payload string
		visited bool
	}{
		"fresh":          {fresh, "{}", false},
		"failed before":  {number(fresh, retriedField, 1), "", true},
		"another field":  {number(fresh, 99, 7), "{}", false},
		"cut off":        {fresh[:len(fresh)-1], "", true},
		"no message":     {[]byte("\xff\xff"), "", true},
		"empty":          {nil, "", false},
		"a long payload": {text(nil, payloadField, string(make([]byte, 300))), string(make([]byte, 300)), false},
	} {
		payload, visited := taskOf(string(tt.message))
		if visited != tt.visited || !visited && string(payload) != tt.payload {
			t.Errorf("%s: %q, %v", name, payload, visited)
		}
	}
}
