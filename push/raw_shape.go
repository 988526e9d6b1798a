package push

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
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
	// anything is every type: the app defines the value.
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

// A shape describes the valid values of a member of a raw block.
type shape struct {
	kind kind
	// fields are an object's known members.
	fields map[string]*shape
	// others is the shape of an object's other members; nil refuses them.
	others *shape
	// name returns the fault of a member's name, given its value; "" for none.
	name func(name string, value any) string
	// required are the members that an object must have.
	required []string
	// items is the shape of an array's items; nil allows all.
	items *shape
	// oneOf are the strings allowed; nil allows all.
	oneOf []string
	// value returns the fault of a string or number, "" for none.
	value func(string) string
}

// Shapes that occur in many places.
var (
	text     = &shape{kind: aString}
	flag     = &shape{kind: aBool}
	integer  = &shape{kind: anInt}
	count    = &shape{kind: anInt, value: notNegative}
	count32  = &shape{kind: anInt, value: isInt32}
	zeroOne  = &shape{kind: anInt, value: isZeroOne}
	texts    = &shape{kind: anArray, items: text}
	custom   = &shape{kind: anything}
	freeform = &shape{kind: anObject, others: custom}
)

func notNegative(s string) string {
	if strings.HasPrefix(s, "-") {
		return "must not be negative"
	}
	return ""
}

// isInt32 accepts an int32 of protocol buffers that is not negative.
func isInt32(s string) string {
	if _, err := strconv.ParseUint(s, 10, 31); err != nil {
		return fmt.Sprintf("must be from 0 to %d", math.MaxInt32)
	}
	return ""
}

func isZeroOne(s string) string {
	if s != "0" && s != "1" {
		return "must be 0 or 1"
	}
	return ""
}

// check adds the faults of v, which is the whole block at the path.
func (s *shape) check(v any, path []string, faults *Faults) {
	c := checker{root: s, faults: faults}
	c.value(s, v, path)
}

// A checker checks one block.
type checker struct {
	root   *shape
	faults *Faults
	// inArray is true inside an array, where null removes nothing.
	inArray bool
}

func (c checker) value(s *shape, v any, path []string) {
	if s.kind == anything {
		return
	}
	got, written := kindOf(v)
	if s.kind&got == 0 {
		c.faults.Add(strictjson.Pointer(path...), "must be %s", s.kind)
		return
	}
	switch v := v.(type) {
	case map[string]any:
		c.object(s, v, path)
		return
	case []any:
		c.inArray = true
		if s.items != nil {
			for i, item := range v {
				c.value(s.items, item, append(path, strconv.Itoa(i)))
			}
		}
		return
	}
	if s.oneOf != nil && got == aString && !slices.Contains(s.oneOf, written) {
		c.faults.Add(strictjson.Pointer(path...), "must be one of %s", strings.Join(s.oneOf, ", "))
	}
	if s.value != nil {
		if problem := s.value(written); problem != "" {
			c.faults.Add(strictjson.Pointer(path...), "%s", problem)
		}
	}
}

func (c checker) object(s *shape, object map[string]any, path []string) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at := append(path, name)
		if s.name != nil {
			if problem := s.name(name, object[name]); problem != "" {
				c.faults.Add(strictjson.Pointer(at...), "%s", problem)
				continue
			}
		}
		member, known := s.fields[name]
		if !known {
			member = s.others
		}
		switch {
		case member == nil:
			c.faults.Add(strictjson.Pointer(at...), "is not a field that the platform has here%s", c.place(s, name))
		case object[name] != nil:
			c.value(member, object[name], at)
		case c.inArray && member.kind != anything:
			c.faults.Add(strictjson.Pointer(at...), "must be left out: null removes nothing inside an array")
		}
	}
	for _, name := range s.required {
		if object[name] == nil {
			c.faults.Add(strictjson.Pointer(append(path, name)...), "is missing")
		}
	}
}

// kindOf returns a decoded value's kind and, for strings and numbers, the text of the value. A
// whole number is both an integer and a number.
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
