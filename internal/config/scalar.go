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

// isText reports whether v decodes itself from a text.
func isText(v reflect.Value) bool {
	_, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	return ok
}

// setText sets a scalar from its text. The error contains the expectation but not the text, which
// may be a misplaced secret.
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
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return errors.New("want a number")
		}
		v.SetFloat(n)
	default:
		panic("config: a field has the type " + v.Type().String())
	}
	return nil
}

func unknownKey(known []string) string {
	return "unknown key; want one of " + strings.Join(known, ", ")
}

// CheckName returns the fault of a name of an app, a category or a token; nil for a valid name.
func CheckName(name string) error {
	if fault := nameFault(name); fault != "" {
		return errors.New(fault)
	}
	return nil
}

// nameFault returns the fault of an app's or a category's name, or "".
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
