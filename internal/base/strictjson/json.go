// Package strictjson reads JSON strictly, as notifications need. Faults are: an unknown field, a
// duplicate name, half a character, and a value of a wrong type, range or form. It reports faults by
// field and without values. Start with Parse.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// Encode writes v compactly and does not escape <, > and &: each escape would take five of the 4096
// bytes that a platform accepts.
func Encode(v any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.text.Reset()
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.Clone(bytes.TrimSuffix(e.text.Bytes(), []byte("\n"))), nil
}

// An encoder reuses its buffer.
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

// Decode reads exactly one JSON value. It rejects fields that v does not have, and does not round
// numbers.
func Decode(data []byte, v any) error {
	d := decoders.Get().(*decoder)
	if d.read(data, v) != nil { // a decoder is unusable after an error, and its offsets count from its first text
		return newDecoder().read(data, v)
	}
	decoders.Put(d)
	return nil
}

// A decoder reuses its buffer.
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
