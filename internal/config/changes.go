package config

import (
	"maps"
	"reflect"
	"slices"
)

// Changes answers the keys whose values differ between two configurations, in
// the order of the type, and of the name below a map. An entry of a map or a
// section that is in one alone is one key. It holds no values.
func Changes(old, new *Config) []string {
	return changes("", reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem())
}

// changes compares two values of the same type, which stand at key.
func changes(key string, old, new reflect.Value) []string {
	if reflect.DeepEqual(old.Interface(), new.Interface()) {
		return nil
	}
	var keys []string
	switch old.Kind() {
	case reflect.Pointer:
		if !old.IsNil() && !new.IsNil() {
			keys = changes(key, old.Elem(), new.Elem())
		}
	case reflect.Struct:
		for i := range old.NumField() {
			if name := tagOf(old.Type().Field(i)); name != "" {
				keys = append(keys, changes(join(key, name), old.Field(i), new.Field(i))...)
			}
		}
	case reflect.Map:
		names := map[string]bool{}
		for _, name := range append(old.MapKeys(), new.MapKeys()...) {
			names[name.String()] = true
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			was, is := old.MapIndex(reflect.ValueOf(name)), new.MapIndex(reflect.ValueOf(name))
			if !was.IsValid() || !is.IsValid() {
				keys = append(keys, join(key, name))
				continue
			}
			keys = append(keys, changes(join(key, name), was, is)...)
		}
	}
	if len(keys) == 0 {
		return []string{key} // the whole of it, or what no key of its own tells
	}
	return keys
}

// Within reports whether a key of Changes is another or below it.
func Within(key, other string) bool { return within(key, other) }
