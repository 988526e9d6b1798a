package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pushpace/pushpace/throttle"
)

// A Section is a part of the configuration for people: its keys in the order of the structs, each
// with its value. It holds no secret.
type Section []Entry

// An Entry is a key with its value: nil if none is given, a bool, a number, a text, a list of
// these, or a Section.
type Entry struct {
	Key   string
	Value any
}

// Shown returns every key with the value in force.
func (c *Config) Shown() Section { return shown(reflect.ValueOf(*c), false).(Section) }

// String describes c to a person, by the values that are not defaults. It contains no secret.
func (c *Config) String() string { return flow(shown(reflect.ValueOf(*c), true)) }

// LogValue is String for a log.
func (c *Config) LogValue() slog.Value { return shown(reflect.ValueOf(*c), true).(Section).LogValue() }

// shown returns a value for people. If brief, it leaves out keys that are not given or at their
// defaults.
func shown(v reflect.Value, brief bool) any {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	switch value := v.Interface().(type) {
	case time.Duration:
		return throttle.FormatPeriod(value)
	case Address:
		return value.shown()
	case AppQuota:
		if value.Name != "" {
			return value.Name
		}
	case encoding.TextMarshaler:
		if v.IsZero() && v.Kind() != reflect.String {
			return nil
		}
		text, err := value.MarshalText()
		if err != nil {
			return hidden
		}
		return string(text)
	}
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = shown(v.Index(i), brief)
		}
		return list
	case reflect.Map:
		entries := make(Section, 0, v.Len())
		for _, name := range v.MapKeys() {
			entries = append(entries, Entry{name.String(), shown(v.MapIndex(name), brief)})
		}
		slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
		return entries
	case reflect.Struct:
		section := Section{}
		for _, f := range fieldsOf(v.Type()) {
			value := shown(v.FieldByIndex(f.Index), brief)
			if !brief || isGiven(f, v.FieldByIndex(f.Index), value) {
				section = append(section, Entry{tagOf(f), value})
			}
		}
		return section
	}
	return v.Interface()
}

// isGiven reports whether a value differs from the default.
func isGiven(f reflect.StructField, v reflect.Value, shown any) bool {
	if section, ok := shown.(Section); ok && v.Kind() != reflect.Pointer {
		return len(section) > 0
	}
	return shown != nil && shown != "" && flow(shown) != f.Tag.Get("default")
}

// flow writes a value in one line, as a file may have it.
func flow(value any) string {
	switch value := value.(type) {
	case nil:
		return none
	case string:
		if value == "" {
			return none
		}
		return value
	case []any:
		items := make([]string, len(value))
		for i, item := range value {
			items[i] = flow(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case Section:
		entries := make([]string, len(value))
		for i, e := range value {
			entries[i] = e.Key + ": " + flow(e.Value)
		}
		return "{" + strings.Join(entries, ", ") + "}"
	}
	return fmt.Sprint(value)
}

// none stands for a key that is not set.
const none = "none"

// MarshalYAML writes the keys in their order.
func (s Section) MarshalYAML() (any, error) {
	items := make(yaml.MapSlice, len(s))
	for i, e := range s {
		items[i] = yaml.MapItem{Key: e.Key, Value: e.Value}
	}
	return items, nil
}

// MarshalJSON writes the keys in their order.
func (s Section) MarshalJSON() ([]byte, error) {
	text := []byte("{")
	for i, e := range s {
		if i > 0 {
			text = append(text, ',')
		}
		name, _ := json.Marshal(e.Key)
		value, err := json.Marshal(e.Value)
		if err != nil {
			return nil, err
		}
		text = append(append(append(text, name...), ':'), value...)
	}
	return append(text, '}'), nil
}

// LogValue returns a group of the keys.
func (s Section) LogValue() slog.Value {
	attrs := make([]slog.Attr, len(s))
	for i, e := range s {
		attrs[i] = slog.Any(e.Key, e.Value)
	}
	return slog.GroupValue(attrs...)
}
