package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A Change is a key with different values in two configurations. A secret's values are not shown.
type Change struct{ Key, From, To string }

// String is KEY: FROM → TO.
func (c Change) String() string {
	if c.From == c.To {
		return c.Key
	}
	return c.Key + ": " + c.From + " → " + c.To
}

// Changes returns the differences between two configurations, in the order of the struct's fields
// and of a map's names. A map's entry, or a section, that only one of them has is one change.
func Changes(old, new *Config) []Change {
	was, is := *old, *new
	was.warnings, is.warnings = nil, nil // a warning whose line has moved is no change
	return changes("", reflect.ValueOf(was), reflect.ValueOf(is))
}

// changes compares the two values of a key.
func changes(key string, old, new reflect.Value) []Change {
	if reflect.DeepEqual(old.Interface(), new.Interface()) {
		return nil
	}
	var all []Change
	switch old.Kind() {
	case reflect.Pointer:
		if !old.IsNil() && !new.IsNil() {
			all = changes(key, old.Elem(), new.Elem())
		}
	case reflect.Struct:
		if q, ok := old.Interface().(AppQuota); ok && q.Name != new.Interface().(AppQuota).Name {
			break // a different quota changes as a whole
		}
		for _, f := range reflect.VisibleFields(old.Type()) {
			if name := tagOf(f); name != "" {
				all = append(all, changes(join(key, name), old.FieldByIndex(f.Index), new.FieldByIndex(f.Index))...)
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
				all = append(all, Change{join(key, name), logged(was), logged(is)})
				all = append(all, throughput(join(key, name), was, is)...)
				continue
			}
			all = append(all, changes(join(key, name), was, is)...)
		}
	}
	if len(all) == 0 {
		return []Change{{key, logged(old), logged(new)}} // no key below it shows the difference
	}
	return all
}

// throughput returns the changes of a category's throughput if only one configuration has the
// category: throughput takes effect at a different time from the category's other keys.
func throughput(key string, was, is reflect.Value) []Change {
	of := func(v reflect.Value) *Quota {
		if !v.IsValid() {
			return nil
		}
		c, _ := v.Interface().(Category)
		return c.Throughput
	}
	return changes(join(key, "throughput"), reflect.ValueOf(of(was)), reflect.ValueOf(of(is)))
}

// logged returns a value for the log, without secrets.
func logged(v reflect.Value) string {
	if !v.IsValid() {
		return none
	}
	return flow(shown(v, true))
}

// Within reports whether a key from Changes is the section or below it. A part * of the section
// matches any part.
func Within(key, section string) bool {
	parts, others := split(key), split(section)
	if len(parts) < len(others) {
		return false
	}
	for i, part := range others {
		if part != "*" && part != parts[i] {
			return false
		}
	}
	return true
}

// split returns the parts of a key's path.
func split(key string) []string {
	if key == "" {
		return nil
	}
	above := parent(key)
	return append(split(above), strings.TrimPrefix(key[len(above):], "."))
}
