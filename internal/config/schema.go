package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
)

// The structs alone define the keys. A field's tags are:
//
//	yaml     the key
//	default  its value if the key is not given, as a file has it
//	range    the numbers or durations that it takes: intervals and single values, as in 0,10..100
//	oneof    the words that it takes
//	kind     its type in docs/configuration.md, if the Go type does not name it
//	reload   when a change takes effect: "at once"; "numbers": at once, but the first and the last
//	         quota at the next start; without it at the next start. It holds for the keys below, too
//
// The first paragraph of its comment is its meaning in docs/configuration.md.

// fieldsOf returns the keys of a section, including keys of embedded structs.
func fieldsOf(section reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(section), func(f reflect.StructField) bool { return tagOf(f) == "" })
}

// tagOf returns a field's name in a file; "" for a field that no file sets.
func tagOf(f reflect.StructField) string { return strings.TrimPrefix(f.Tag.Get("yaml"), "-") }

// fieldByTag finds the field of a section by its key.
func fieldByTag(v reflect.Value, name string) (reflect.Value, bool) {
	for _, f := range fieldsOf(v.Type()) {
		if tagOf(f) == name {
			return v.FieldByIndex(f.Index), true
		}
	}
	return reflect.Value{}, false
}

// fieldTags returns the keys of a section.
func fieldTags(v reflect.Value) (tags []string) {
	for _, f := range fieldsOf(v.Type()) {
		tags = append(tags, tagOf(f))
	}
	return tags
}

// defaulted is a section with defaults that no tag can hold.
type defaulted interface{ setDefaults() }

// setDefaults sets every key of a section, and of the sections in it, to its default.
func setDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for _, f := range fieldsOf(v.Type()) {
		field := v.FieldByIndex(f.Index)
		if text, given := f.Tag.Lookup("default"); !given {
			setDefaults(field)
		} else if err := setText(field, text); err != nil {
			panic(fmt.Sprintf("config: the default of %s: %v", tagOf(f), err))
		}
	}
	if d, ok := v.Addr().Interface().(defaulted); ok {
		d.setDefaults()
	}
}

// sections calls visit with v, the value of key, and with each section below v that is set.
func sections(key string, v reflect.Value, visit func(key string, section reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			sections(key, v.Elem(), visit)
		}
	case reflect.Map:
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			sections(join(key, name.String()), v.MapIndex(name), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			sections(index(key, i), v.Index(i), visit)
		}
	case reflect.Struct:
		visit(key, v)
		for _, f := range fieldsOf(v.Type()) {
			sections(join(key, tagOf(f)), v.FieldByIndex(f.Index), visit)
		}
	}
}

// checkTags reports every value that violates its tags and has no other fault.
func (k *check) checkTags(c *Config) {
	known := k.faults
	sections("", reflect.ValueOf(c), func(key string, section reflect.Value) {
		for _, f := range fieldsOf(section.Type()) {
			at := join(key, tagOf(f))
			err := rangeFault(f, section.FieldByIndex(f.Index))
			if f.Tag.Get("oneof") != "" {
				err = choiceFault(f, section.FieldByIndex(f.Index).String())
			}
			if err != nil && !slices.ContainsFunc(known, func(f Fault) bool { return f.Key == at }) {
				k.fault(at, err.Error())
			}
		}
	})
}

// rangeFault returns the error of a value outside the field's range, or nil.
func rangeFault(f reflect.StructField, v reflect.Value) error {
	text := f.Tag.Get("range")
	if text == "" {
		return nil
	}
	var want []string
	for part := range strings.SplitSeq(text, ",") {
		from, to, interval := strings.Cut(part, "..")
		if !interval {
			to = from
		}
		if !less(v, bound(v.Type(), from)) && !less(bound(v.Type(), to), v) {
			return nil
		}
		want = append(want, strings.Replace(part, "..", " to ", 1))
	}
	return fmt.Errorf("is %s; want %s", flow(shown(v, false)), strings.Join(want, ", or "))
}

// bound returns an end of a range as a value of the field's type.
func bound(t reflect.Type, text string) reflect.Value {
	v := reflect.New(t).Elem()
	if err := setText(v, text); err != nil {
		panic(fmt.Sprintf("config: the bound %s: %v", text, err))
	}
	return v
}

func less(a, b reflect.Value) bool {
	if a.CanFloat() {
		return !(a.Float() >= b.Float()) // true also if either is NaN
	}
	return a.Int() < b.Int()
}

// choiceFault returns an error for a word that the field's tag oneof does not list.
func choiceFault(f reflect.StructField, word string) error {
	words := strings.Fields(f.Tag.Get("oneof"))
	if slices.Contains(words, word) {
		return nil
	}
	want := "want " + fielderrors.List(words, "or")
	if word == "" {
		want = "is missing: " + want
	}
	return errors.New(want)
}
