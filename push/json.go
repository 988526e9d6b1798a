package push

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// encodeJSON writes v compactly and leaves <, > and & as they are: escaping them
// costs five bytes each of the 4096 that a platform takes.
func encodeJSON(v any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.text.Reset()
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.Clone(bytes.TrimSuffix(e.text.Bytes(), []byte("\n"))), nil
}

// An encoder writes one value after the other into the same buffer.
type encoder struct {
	*json.Encoder
	text bytes.Buffer
}

var encoders = sync.Pool{New: func() any {
	e := new(encoder)
	e.Encoder = json.NewEncoder(&e.text)
	e.SetEscapeHTML(false)
	return e
}}

var errTrailing = errors.New("more than one JSON value")

// decodeJSON reads exactly one JSON value. It refuses fields that v does not
// have, and keeps numbers as they are written.
func decodeJSON(data []byte, v any) error {
	d := decoders.Get().(*decoder)
	if d.read(data, v) != nil { // it goes no further, and counts from its first text on
		return newDecoder().read(data, v)
	}
	decoders.Put(d)
	return nil
}

// A decoder reads one text after the other into the same buffer.
type decoder struct {
	*json.Decoder
	text bytes.Reader
}

var decoders = sync.Pool{New: func() any { return newDecoder() }}

func newDecoder() *decoder {
	d := new(decoder)
	d.Decoder = json.NewDecoder(&d.text)
	d.DisallowUnknownFields()
	d.UseNumber()
	return d
}

func (d *decoder) read(data []byte, v any) error {
	d.text.Reset(data)
	defer d.text.Reset(nil)
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errTrailing
	}
	return nil
}

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
// replaces what was derived, as in RFC 7396.
func overlay(derived []byte, raw json.RawMessage) (map[string]any, error) {
	var target, patch map[string]any
	if err := decodeJSON(derived, &target); err != nil {
		return nil, err
	}
	if err := decodeJSON(raw, &patch); err != nil {
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

// absent reports whether a raw block says nothing.
func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null"
}
