package push

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// A kind is a set of JSON types.
type kind uint8

const (
	aString kind = 1 << iota
	aBool
	anInt
	aNumber
	anArray
	anObject
	// anything is whatever the app makes of it.
	anything = aString | aBool | anInt | aNumber | anArray | anObject
)

var kindNames = []struct {
	kind kind
	name string
}{
	{aString, "a string"}, {aBool, "true or false"}, {anInt, "an integer"},
	{aNumber, "a number"}, {anArray, "an array"}, {anObject, "an object"},
}

func (k kind) String() string {
	var names []string
	for _, kn := range kindNames {
		if k&kn.kind != 0 {
			names = append(names, kn.name)
		}
	}
	return strings.Join(names, " or ")
}

// A shape says what a value in a raw block may be.
type shape struct {
	kind kind
	// fields are an object's known members.
	fields map[string]*shape
	// others is the shape of an object's other members; nil refuses them.
	others *shape
	// name says what is wrong with a member's name, "" if nothing is.
	name func(string) string
	// required are the members that an object must have.
	required []string
	// items is the shape of an array's items; nil allows all.
	items *shape
	// oneOf are the strings allowed; nil allows all.
	oneOf []string
	// value says what is wrong with a string or number, "" if nothing is.
	value func(string) string
}

// Shapes that occur in many places.
var (
	text     = &shape{kind: aString}
	flag     = &shape{kind: aBool}
	integer  = &shape{kind: anInt}
	count    = &shape{kind: anInt, value: notNegative}
	zeroOne  = &shape{kind: anInt, value: isZeroOne}
	texts    = &shape{kind: anArray, items: text}
	textMap  = &shape{kind: anObject, others: text}
	custom   = &shape{kind: anything}
	freeform = &shape{kind: anObject, others: custom}
)

func notNegative(s string) string {
	if strings.HasPrefix(s, "-") {
		return "must not be negative"
	}
	return ""
}

func isZeroOne(s string) string {
	if s != "0" && s != "1" {
		return "must be 0 or 1"
	}
	return ""
}

// check adds the faults of v, which stands at the path. A member that is null is
// removed from what is derived, so its shape does not matter.
func (s *shape) check(v any, path []string, faults *Faults) {
	if s.kind == anything {
		return
	}
	got, written := kindOf(v)
	if s.kind&got == 0 {
		faults.Add(strictjson.Pointer(path...), "must be %s", s.kind)
		return
	}
	switch v := v.(type) {
	case map[string]any:
		s.checkObject(v, path, faults)
		return
	case []any:
		if s.items != nil {
			for i, item := range v {
				s.items.check(item, append(path, strconv.Itoa(i)), faults)
			}
		}
		return
	}
	if s.oneOf != nil && got == aString && !slices.Contains(s.oneOf, written) {
		faults.Add(strictjson.Pointer(path...), "must be one of %s", strings.Join(s.oneOf, ", "))
	}
	if s.value != nil {
		if problem := s.value(written); problem != "" {
			faults.Add(strictjson.Pointer(path...), "%s", problem)
		}
	}
}

func (s *shape) checkObject(object map[string]any, path []string, faults *Faults) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at := append(path, name)
		if s.name != nil {
			if problem := s.name(name); problem != "" {
				faults.Add(strictjson.Pointer(at...), "%s", problem)
				continue
			}
		}
		member, known := s.fields[name]
		if !known {
			member = s.others
		}
		switch {
		case member == nil:
			faults.Add(strictjson.Pointer(at...), "is not a field that the platform has here")
		case object[name] != nil:
			member.check(object[name], at, faults)
		}
	}
	for _, name := range s.required {
		if object[name] == nil {
			faults.Add(strictjson.Pointer(append(path, name)...), "is missing")
		}
	}
}

// kindOf returns a decoded value's kind and, for strings and numbers, the value
// as it is written. A whole number is both an integer and a number.
func kindOf(v any) (kind, string) {
	switch v := v.(type) {
	case string:
		return aString, v
	case bool:
		return aBool, ""
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return anInt | aNumber, v.String()
		}
		return aNumber, v.String()
	case []any:
		return anArray, ""
	case map[string]any:
		return anObject, ""
	}
	return 0, ""
}
