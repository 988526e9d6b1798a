package push

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pushpace/pushpace/internal/faults"
)

// Parse reads one notification from its JSON form, as a line of NDJSON or a
// request holds it. It is strict: an unknown field is a fault, and so is a name
// that is there twice. It does not validate what the fields hold. Its error is of
// type Faults and names every field that does not fit.
func Parse(data []byte) (*Notification, error) {
	n := new(Notification)
	var err error
	if len(data) <= MaxEncodedSize { // else it is not worth it
		err = decodeJSON(data, n)
	}
	if err = parsed(data, n, err); err != nil {
		return nil, err
	}
	return n, nil
}

// parsed returns what is wrong with a notification that was decoded with that error.
func parsed(data []byte, n *Notification, err error) error {
	if len(data) > MaxEncodedSize {
		return faults.New("", "is %d bytes, at most %d are taken", len(data), MaxEncodedSize)
	}
	err = strictly(data, n, err, openMembers...)
	if f, ok := err.(Faults); ok && !json.Valid(data) { //nolint:errorlint // it is of no other type
		return f
	} else if ok {
		return withOthers(data, f)
	}
	return err
}

// withOthers adds to what does not fit in a notification what is wrong with the members
// that do, so that all is told at once.
func withOthers(data []byte, f Faults) Faults {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return f
	}
	misfit := func(of Fault) string {
		name, _, _ := strings.Cut(strings.TrimPrefix(of.Field, "/"), "/")
		return name
	}
	for _, one := range f {
		switch name := misfit(one); name {
		case "", "push_type", "targets": // by which others are judged
			return f
		default:
			delete(members, name)
		}
	}
	rest, err := json.Marshal(members)
	n := new(Notification)
	if err != nil || decodeJSON(rest, n) != nil {
		return f
	}
	for _, other := range n.faults() {
		if !slices.ContainsFunc(f, func(one Fault) bool { return misfit(one) == misfit(other) }) {
			f = append(f, other)
		}
	}
	return f
}

// ParseStrictly reads one JSON object into the struct that v points to, as
// strictly as Parse does. Names within the members called open are taken as they
// are. The error is of type Faults.
func ParseStrictly(data []byte, v any, open ...string) error {
	return strictly(data, v, decodeJSON(data, v), open...)
}

// strictly returns what is wrong with data, which decoding into what v points to ended
// with that error.
func strictly(data []byte, v any, err error, open ...string) error {
	if !utf8.Valid(data) {
		return faults.New("", "is not UTF-8")
	}
	if err != nil {
		return misfits(data, v, err)
	}
	if loneSurrogate(data) {
		return faults.New("", "%s", loneSurrogateFault)
	}
	if f := duplicates(data, open...); len(f) > 0 {
		return f
	}
	if string(bytes.TrimSpace(data)) == "null" {
		return faults.New("", "must be an object")
	}
	return nil
}

// openMembers are those of a notification whose names are an app's or a platform's own.
var openMembers = []string{"data", "apns", "fcm"}

// Parsed is an item of an array: a notification, or why it is none, of type Faults.
type Parsed struct {
	*Notification
	Err error
}

// ParseAll reads an array of 1 to that many notifications, each as Parse does. The error
// is of type Faults, and says what is wrong with the array.
func ParseAll(data []byte, most int) ([]Parsed, error) {
	d := newDecoder()
	d.text.Reset(data)
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return nil, misfitArray(data, most)
	}
	var all []Parsed
	for d.More() && len(all) < most {
		n, from := new(Notification), d.InputOffset()
		err := d.Decode(n)
		item := bytes.TrimLeft(data[from:d.InputOffset()], ", \t\r\n")
		if len(item) == 0 { // it went no further
			return nil, misfitArray(data, most)
		}
		if err = parsed(item, n, err); err != nil {
			n = nil
		}
		all = append(all, Parsed{n, err})
	}
	if end, err := d.Token(); len(all) == 0 || err != nil || end != json.Delim(']') {
		return nil, misfitArray(data, most)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, misfitArray(data, most)
	}
	return all, nil
}

// misfitArray explains why data is no array of 1 to that many items.
func misfitArray(data []byte, most int) error {
	var items []json.RawMessage
	problem := "is empty: at least one notification is needed"
	switch err := json.Unmarshal(data, &items); {
	case errors.As(err, new(*json.UnmarshalTypeError)):
		problem = "must be an array"
	case err != nil:
		return faults.New("", "%s", notJSON(err))
	case len(items) > most:
		problem = fmt.Sprintf("has %d notifications, at most %d are taken", len(items), most)
	}
	return faults.New("", "%s", problem)
}

// misfits explains why data does not decode into what v points to, field by
// field and without its values. err is what the decoder said.
func misfits(data []byte, v any, err error) Faults {
	var f Faults
	if !json.Valid(data) {
		return faults.New("", "%s", notJSON(err))
	}
	misfit(data, reflect.TypeOf(v).Elem(), nil, &f)
	if len(f) == 0 {
		f.Add("", "does not have the form that is expected")
	}
	return f
}

// notJSON says what a decoder has found wrong with a text.
func notJSON(err error) string {
	if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
		return fmt.Sprintf("is not JSON: %v at byte %d", syntax, syntax.Offset)
	}
	if errors.Is(err, errTrailing) {
		return "holds more than one JSON value"
	}
	return "is not complete JSON"
}

var (
	instantType  = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[Duration]()
)

func misfit(data json.RawMessage, t reflect.Type, path []string, f *Faults) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if string(data) == "null" {
		return // leaves a field as it is
	}
	switch {
	case t.Kind() == reflect.Struct && t != instantType:
		var members map[string]json.RawMessage
		if json.Unmarshal(data, &members) != nil {
			f.Add(pointer(path...), "must be an object")
			return
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			at := append(path, name)
			if field, ok := fieldNamed(t, name); ok {
				misfit(members[name], field, at, f)
			} else {
				f.Add(pointer(at...), "is not a known field")
			}
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		var items []json.RawMessage
		if json.Unmarshal(data, &items) != nil {
			f.Add(pointer(path...), "must be an array")
			return
		}
		for i, item := range items {
			misfit(item, t.Elem(), append(path, strconv.Itoa(i)), f)
		}
	case t.Kind() == reflect.Map:
		var members map[string]json.RawMessage
		if json.Unmarshal(data, &members) != nil {
			f.Add(pointer(path...), "must be an object")
			return
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			misfit(members[name], t.Elem(), append(path, name), f)
		}
	default:
		if json.Unmarshal(data, reflect.New(t).Interface()) != nil {
			f.Add(pointer(path...), "must be %s", expected(t))
		}
	}
}

// fieldNamed finds a struct's field as encoding/json does, whatever the case.
func fieldNamed(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		if strings.EqualFold(jsonName(t.Field(i)), name) {
			return t.Field(i).Type, true
		}
	}
	return nil, false
}

// jsonName returns the name that a struct's field has in JSON.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func expected(t reflect.Type) string {
	switch {
	case t == instantType:
		return "an instant in RFC 3339, such as 2026-11-20T20:00:00Z"
	case t == durationType:
		return "a duration such as 2h, 90s or 5d"
	case t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Bool:
		return "true or false"
	}
	return "an integer"
}
