package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
)

// Parse reads one JSON object into the struct that v points to. Inside the openMembers, any names
// are allowed. The error is of type fielderrors.Faults.
func Parse(data []byte, v any, openMembers ...string) error {
	return Check(data, v, Decode(data, v), openMembers...)
}

// Check returns the faults of data. err is the error of decoding data into v's type. The result is
// of type fielderrors.Faults, or nil.
func Check(data []byte, v any, err error, openMembers ...string) error {
	if !utf8.Valid(data) {
		return fielderrors.New("", "is not UTF-8")
	}
	if err != nil {
		return Misfits(data, v, err)
	}
	if err := CheckCharacters(data); err != nil {
		return err
	}
	if f := Duplicates(data, openMembers...); len(f) > 0 {
		return f
	}
	if string(bytes.TrimSpace(data)) == "null" {
		return fielderrors.New("", "must be an object")
	}
	return nil
}

// Misfits explains why data does not decode into the type of v, field by field and without values.
// A struct that implements json.Unmarshaler or encoding.TextUnmarshaler reports its own faults. err
// is Decode's error.
func Misfits(data []byte, v any, err error) fielderrors.Faults {
	var f fielderrors.Faults
	if !json.Valid(data) {
		return fielderrors.New("", "%s", NotJSON(err))
	}
	misfit(data, reflect.TypeOf(v).Elem(), nil, &f)
	if len(f) == 0 {
		f.Add("", "does not have the form that is expected")
	}
	return f
}

// NotJSON describes a decoder's error about a text.
func NotJSON(err error) string {
	if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
		return fmt.Sprintf("is not JSON: %v at byte %d", syntax, syntax.Offset)
	}
	if errors.Is(err, errTrailing) {
		return "holds more than one JSON value"
	}
	return "is not complete JSON"
}

var (
	instantType = reflect.TypeFor[time.Time]()
	textType    = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func misfit(data json.RawMessage, t reflect.Type, path []string, f *fielderrors.Faults) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if string(data) == "null" {
		return // null does not change a field
	}
	switch own := reflect.New(t).Interface().(type) {
	case json.Unmarshaler:
		if t.Kind() == reflect.Struct && t != instantType {
			for _, one := range fielderrors.Of(own.UnmarshalJSON(data)) {
				f.Add(Pointer(path...)+one.Field, "%s", one.Problem)
			}
			return
		}
	case encoding.TextUnmarshaler:
		var text string
		if t.Kind() == reflect.Struct && json.Unmarshal(data, &text) == nil {
			for _, one := range fielderrors.Of(own.UnmarshalText([]byte(text))) {
				f.Add(Pointer(path...), "%s", one.Problem)
			}
			return
		}
	}
	switch {
	case t.Kind() == reflect.Struct && t != instantType && !reflect.PointerTo(t).Implements(textType):
		var members map[string]json.RawMessage
		if json.Unmarshal(data, &members) != nil {
			f.Add(Pointer(path...), "must be an object")
			return
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			at := append(path, name)
			if field, ok := fieldNamed(t, name); ok {
				misfit(members[name], field, at, f)
			} else {
				f.Add(Pointer(at...), "is not a known field")
			}
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		var items []json.RawMessage
		if json.Unmarshal(data, &items) != nil {
			f.Add(Pointer(path...), "must be an array")
			return
		}
		for i, item := range items {
			misfit(item, t.Elem(), append(path, strconv.Itoa(i)), f)
		}
	case t.Kind() == reflect.Map:
		var members map[string]json.RawMessage
		if json.Unmarshal(data, &members) != nil {
			f.Add(Pointer(path...), "must be an object")
			return
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			misfit(members[name], t.Elem(), append(path, name), f)
		}
	default:
		if json.Unmarshal(data, reflect.New(t).Interface()) != nil {
			f.Add(Pointer(path...), "must be %s", expected(t))
		}
	}
}

// fieldNamed finds a struct's field as encoding/json does, ignoring case.
func fieldNamed(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Anonymous && f.Tag == "" && f.Type.Kind() == reflect.Struct: // embedded fields belong to the struct
			if its, ok := fieldNamed(f.Type, name); ok {
				return its, true
			}
		case f.Tag.Get("json") != "-" && strings.EqualFold(Name(f), name):
			return f.Type, true
		}
	}
	return nil, false
}

// Name returns the name that a struct's field has in JSON.
func Name(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func expected(t reflect.Type) string {
	switch {
	case t == instantType:
		return "an instant in RFC 3339, such as 2026-11-20T20:00:00Z"
	case t.Kind() == reflect.Int64 && reflect.PointerTo(t).Implements(textType):
		return "a duration such as 2h, 90s or 5d"
	case t.Kind() == reflect.String, t.Kind() == reflect.Struct: // a struct with a text form
		return "a string"
	case t.Kind() == reflect.Bool:
		return "true or false"
	}
	return "an integer"
}
