package push

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
)

type schema struct {
	Type                 any                `json:"type"`
	Required             []string           `json:"required"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties any                `json:"additionalProperties"`
	Enum                 []string           `json:"enum"`
	MinLength            int                `json:"minLength"`
	MaxLength            int                `json:"maxLength"`
	MinItems             int                `json:"minItems"`
	MaxItems             int                `json:"maxItems"`
	Minimum              *int               `json:"minimum"`
	Maximum              int                `json:"maximum"`
	Format               string             `json:"format"`
	Defs                 map[string]*schema `json:"$defs"`
}

func readSchema(t *testing.T) *schema {
	t.Helper()
	data, err := os.ReadFile("notification.schema.json")
	must(t, err)
	s := new(schema)
	must(t, json.Unmarshal(data, s))
	return s
}

func TestSchemaFieldsEqualCode(t *testing.T) {
	t.Parallel()
	s := readSchema(t)
	for name, test := range map[string]struct {
		schema *schema
		of     reflect.Type
	}{
		"notification": {s, reflect.TypeFor[Notification]()},
		"target":       {s.Defs["target"], reflect.TypeFor[Target]()},
		"keys":         {s.Defs["keys"], reflect.TypeFor[Keys]()},
		"digest":       {s.Defs["digest"], reflect.TypeFor[Digest]()},
	} {
		var names []string
		for i := range test.of.NumField() {
			field := test.of.Field(i)
			names = append(names, strictjson.Name(field))
			property := test.schema.Properties[strictjson.Name(field)]
			if property == nil {
				t.Errorf("%s: the schema has no %s", name, strictjson.Name(field))
				continue
			}
			if want := schemaType(field.Type); property.Enum == nil && !reflect.DeepEqual(property.Type, want) {
				t.Errorf("%s: %s is %v in the schema, want %v", name, strictjson.Name(field), property.Type, want)
			}
			if isInstant := field.Type == reflect.TypeFor[time.Time](); isInstant != (property.Format == "date-time") {
				t.Errorf("%s: %s has the format %q", name, strictjson.Name(field), property.Format)
			}
		}
		for property := range test.schema.Properties {
			if !slices.Contains(names, property) {
				t.Errorf("%s: the code has no %s", name, property)
			}
		}
		if test.schema.AdditionalProperties != false {
			t.Errorf("%s: the schema allows unknown fields", name)
		}
	}
}

// schemaType returns the type that the schema must have for a field of type t.
func schemaType(t reflect.Type) any {
	switch {
	case t == reflect.TypeFor[*Digest](), t == reflect.TypeFor[*Keys]():
		return nil // its own type, or null
	case t.Kind() == reflect.Pointer:
		return []any{"integer", "null"}
	case t.Kind() == reflect.Map, t == reflect.TypeFor[json.RawMessage]():
		return []any{"object", "null"}
	case t.Kind() == reflect.Slice:
		return "array"
	}
	return "string"
}

func TestSchemaBoundsMatchCode(t *testing.T) {
	t.Parallel()
	s := readSchema(t)
	p := s.Properties
	target := s.Defs["target"].Properties
	for name, bound := range map[string]struct{ got, want int }{
		"id":           {p["id"].MaxLength, MaxIDBytes},
		"app":          {p["app"].MaxLength, MaxNameBytes},
		"user":         {p["user"].MaxLength, MaxNameBytes},
		"category":     {p["category"].MaxLength, MaxNameBytes},
		"collapse_key": {p["collapse_key"].MaxLength, MaxCollapseKeyBytes},
		"digest key":   {s.Defs["digest"].Properties["key"].MaxLength, MaxDigestKeyBytes},
		"targets":      {p["targets"].MaxItems, MaxTargets},
		"token":        {target["token"].MaxLength, MaxTokenBytes},
		"least app":    {p["app"].MinLength, 1},
		"least user":   {p["user"].MinLength, 1},
		"least target": {p["targets"].MinItems, 1},
		"least token":  {target["token"].MinLength, 1},
	} {
		if bound.got != bound.want {
			t.Errorf("%s: the schema's bound is %d, the code's %d", name, bound.got, bound.want)
		}
	}
	if b := p["badge"]; b.Minimum == nil || *b.Minimum != 0 || b.Maximum != math.MaxInt32 {
		t.Error("badge: the schema's bounds are not 0 and the largest int32")
	}
	pushTypes := append(slices.Sorted(maps.Keys(topicSuffixes)), "")
	for name, enum := range map[string]struct{ got, want []string }{
		"priority":  {p["priority"].Enum, []string{"", string(Critical), string(Default), string(Bulk)}},
		"push_type": {p["push_type"].Enum, pushTypes},
	} {
		slices.Sort(enum.got)
		slices.Sort(enum.want)
		if !slices.Equal(enum.got, enum.want) {
			t.Errorf("%s: the schema has %q, the code %q", name, enum.got, enum.want)
		}
	}
	// The fields that the code reports missing in an empty notification and target.
	var missing []string
	for _, f := range (&Notification{}).faults() {
		missing = append(missing, f.Field[1:])
	}
	if !slices.Equal(missing, s.Required) {
		t.Errorf("the schema requires %q, the code %q", s.Required, missing)
	}
}
