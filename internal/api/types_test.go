package api

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// types are the Go types that the schemas of the document describe, and that the API's client
// reads. The test finds nested schemas and types from these.
var types = map[string]any{
	"Accepted": accepted{}, "Batch": batch{}, "Problem": problem{}, "Done": each(nil, nil).value, "Withdrawn": control.Withdrawn{},
	"Status": inspect.Status{}, "WaitingList": inspect.Page{}, "Timeline": inspect.Timeline{},
	"Letters": operate.LetterPage{}, "WholeLetter": operate.DeadLetter{},
	"Limits": operate.Limits{}, "Override": limits.Override{}, "OverridePage": operate.OverridePage{}, "Setting": operate.Setting{}, "Preview": operate.Preview{}, "Change": limits.Change{},
	"Quota": operate.QuotaStatus{}, "Pause": pause.Pause{}, "NewPause": wantedPause{},
	"Overview": operate.Overview{}, "Loss": control.Loss{}, "Throughput": operate.Throughput{}, "Snapshot": control.Snapshot{}, "Audit": inspect.Audit{}, "Action": auditlog.Entry{},
	"DeadToken": store.DeadToken{}, "OutcomeEvent": store.OutcomeEvent{},
}

// left maps a schema to fields of its type that the answers leave out.
var left = map[string][]string{"Letter": {"job"}, "WholeLetter": {"app", "category", "user"}, "Limits": {"mute", "quota"}, "Preview": {"mute"}}

// optional are bodies of requests, which may leave out any field.
var optional = []string{"NewPause"}

// The document has exactly the types' fields, with their kinds, and requires the fields that are
// always there.
func TestDocumentHasTheTypes(t *testing.T) {
	t.Parallel()
	doc, err := load()
	must(t, err)
	c := &comparison{t: t, seen: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		c.compare(name, reflect.TypeOf(types[name]), doc.Components.Schemas[name])
	}
}

// A comparison compares types with schemas.
type comparison struct {
	t    *testing.T
	seen map[string]bool // types with the schemas that they were compared with
}

func (c *comparison) compare(at string, of reflect.Type, schema *openapi3.SchemaRef) {
	if schema == nil {
		c.t.Errorf("%s is missing", at)
		return
	}
	if schema.Ref != "" {
		at = schema.Ref[strings.LastIndex(schema.Ref, "/")+1:]
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	key := at + " " + of.String()
	if c.seen[key] {
		return
	}
	c.seen[key] = true
	full := reflect.New(of).Elem()
	fill(full)
	value := c.written(full)
	if want := kindOf(value); !schema.Value.Type.Includes(want) && !(want == "number" && schema.Value.Type.Includes("integer")) {
		c.t.Errorf("%s is %v, want %s", at, schema.Value.Type, want)
		return
	}
	members, isObject := value.(map[string]any)
	switch {
	case of.Kind() == reflect.Slice && kindOf(value) == "array":
		c.compare(at+"[]", of.Elem(), schema.Value.Items)
	case of.Kind() == reflect.Map:
		c.compare(at+"{}", of.Elem(), schema.Value.AdditionalProperties.Schema)
	case isObject && schema.Value.Properties != nil:
		always, _ := c.written(reflect.New(of).Elem()).(map[string]any)
		for _, name := range left[at] {
			delete(members, name)
			delete(always, name)
		}
		if got, want := slices.Sorted(maps.Keys(schema.Value.Properties)), slices.Sorted(maps.Keys(members)); !slices.Equal(got, want) {
			c.t.Errorf("%s has %q, want %q", at, got, want)
		}
		for name := range always {
			if !slices.Contains(schema.Value.Required, name) && !slices.Contains(optional, at) {
				c.t.Errorf("%s does not require %s", at, name)
			}
		}
		for name, field := range fieldsOf(of) {
			if property := schema.Value.Properties[name]; property != nil {
				c.compare(at+"."+name, field, property)
			}
		}
	}
}

func (c *comparison) written(v reflect.Value) (value any) {
	text, err := json.Marshal(v.Interface())
	must(c.t, err)
	must(c.t, json.Unmarshal(text, &value))
	return value
}

// kindOf returns a JSON value's type as a schema names it.
func kindOf(value any) string {
	switch value.(type) {
	case bool:
		return "boolean"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// fieldsOf returns the types of a struct's fields by their JSON names. It returns none for a
// type with its own MarshalJSON.
func fieldsOf(of reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	if of.Implements(reflect.TypeFor[json.Marshaler]()) {
		return fields
	}
	for _, f := range reflect.VisibleFields(of) {
		if name := strictjson.Name(f); f.IsExported() && name != "" && name != "-" {
			fields[name] = f.Type
		}
	}
	return fields
}

// fill sets every field that can be set, so that JSON leaves out no field.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1, 0).UTC()))
		return
	case *time.Location:
		v.Set(reflect.ValueOf(time.UTC))
		return
	case json.RawMessage:
		v.SetBytes([]byte("{}"))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.String:
		v.SetString("x")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	}
}
