package config

import (
	"encoding"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/duration"
	"github.com/pushpace/pushpace/internal/base/names"
)

// maxName is the longest name of an app or a category, in bytes.
const maxName = 128

// isText reports whether v reads itself from a text.
func isText(v reflect.Value) bool {
	_, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	return ok
}

// setText sets a scalar from its text. The error says what is expected and does
// not repeat the text, which may be a secret in the wrong place.
func setText(v reflect.Value, text string) error {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d, err := duration.Parse(text)
		if err != nil {
			return errors.New("want a duration such as 250ms, 10s, 24h or 7d")
		}
		v.SetInt(int64(d))
		return nil
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		switch text {
		case "true":
			v.SetBool(true)
		case "false":
			v.SetBool(false)
		default:
			return errors.New("want true or false")
		}
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("want a whole number")
		}
		v.SetInt(int64(n))
	default:
		panic("config: a field has the type " + v.Type().String())
	}
	return nil
}

// fieldByTag finds the field of a struct with a yaml tag. Those of an embedded struct
// are its own.
func fieldByTag(v reflect.Value, name string) (reflect.Value, bool) {
	for _, f := range reflect.VisibleFields(v.Type()) {
		if tag := tagOf(f); tag != "" && tag == name {
			return v.FieldByIndex(f.Index), true
		}
	}
	return reflect.Value{}, false
}

// fieldTags are the yaml tags of a struct.
func fieldTags(v reflect.Value) []string {
	var tags []string
	for _, f := range reflect.VisibleFields(v.Type()) {
		if tag := tagOf(f); tag != "" {
			tags = append(tags, tag)
		}
	}
	return tags
}

// tagOf is a field's name in a file; "" for a field that no file sets.
func tagOf(f reflect.StructField) string {
	tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if tag == "-" {
		return ""
	}
	return tag
}

func unknownKey(known []string) string {
	return "unknown key; want one of " + strings.Join(known, ", ")
}

// CheckName reports whether an app, a category or a token can be called so.
func CheckName(name string) error {
	if fault := nameFault(name); fault != "" {
		return errors.New(fault)
	}
	return nil
}

// nameFault says what is wrong with the name of an app or a category, or "".
func nameFault(name string) string {
	switch problem := names.Fault(name, maxName); {
	case name == "":
		return "the name is empty"
	case len(name) > maxName:
		return "the name is longer than " + strconv.Itoa(maxName) + " bytes"
	case problem != "":
		return "the name " + problem
	}
	return ""
}

// oneOf reads an enumerated value.
func oneOf[T ~string](into *T, text string, values ...T) error {
	names := make([]string, len(values))
	for i, value := range values {
		if text == string(value) {
			*into = value
			return nil
		}
		names[i] = string(value)
	}
	return errors.New("want " + strings.Join(names, " or "))
}
