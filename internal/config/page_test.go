package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// A documented key is a row of docs/configuration.md.
type documented struct{ key, kind, byDefault string }

// documentedKeys are the rows of each heading's table: of ## the whole paths, of ###
// those below what the heading names.
func documentedKeys(t *testing.T) map[string][]documented {
	t.Helper()
	text, err := os.ReadFile("../../docs/configuration.md")
	must(t, err)
	keys := map[string][]documented{}
	part := ""
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "### "); ok {
			part = strings.TrimSpace(title)
		} else if strings.HasPrefix(line, "## ") {
			part = ""
		}
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") {
			keys[part] = append(keys[part], documented{strings.Trim(cells[0], "| `"), cells[1], strings.Trim(cells[2], "`")})
		}
	}
	return keys
}

// shared are the sections that stand in several places, and have a table of their own.
var shared = map[string]reflect.Type{
	"A policy":  reflect.TypeFor[throttle.Policy](),
	"A quota":   reflect.TypeFor[Quota](),
	"A webhook": reflect.TypeFor[Webhook](),
}

// A wanted key has the kind and the default of its type; "" where any will do.
type wanted struct{ kind, byDefault string }

// keysOf adds the keys of a section that stands at key.
func keysOf(key string, v reflect.Value, keys map[string]wanted) {
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name := tagOf(f); name != "" && f.IsExported() {
			keyOf(join(key, name), v.FieldByIndex(f.Index), keys)
		}
	}
}

func keyOf(key string, v reflect.Value, keys map[string]wanted) {
	switch v.Kind() {
	case reflect.Pointer:
		section := reflect.New(v.Type().Elem())
		setDefaults(section)
		keyOf(key, section.Elem(), keys)
		return
	case reflect.Map:
		element := reflect.New(v.Type().Elem())
		setDefaults(element)
		keyOf(key+".NAME", element.Elem(), keys)
		return
	case reflect.Slice:
		if v.Type().Elem() == reflect.TypeFor[Token]() {
			keyOf(key+"[]", reflect.New(v.Type().Elem()).Elem(), keys)
			return
		}
	case reflect.Struct:
		switch value := v.Interface().(type) {
		case Category:
			keys[key] = wanted{kind: "[policy](#a-policy)"}
			keyOf(join(key, "throughput"), reflect.ValueOf(value.Throughput), keys)
		case NamedQuota:
			keys[key] = wanted{kind: "[quota](#a-quota)"}
			keys[join(key, "apps")] = wanted{kind: "list"}
		case throttle.Policy:
			keys[key] = wanted{kind: "[policy](#a-policy)"}
		case Quota, Device:
			keys[key] = wanted{kind: "[quota](#a-quota)"}
		case AppQuota:
			keys[key] = wanted{kind: "name or [quota](#a-quota)"}
		case Webhook:
			keys[key] = wanted{kind: "[webhook](#a-webhook)"}
		case Address:
			keys[key] = wanted{kind: "address"}
		case throttle.Rate:
			keys[key] = wanted{kind: "rate"}
		default:
			if key == "limits.redis" {
				keys[key] = wanted{kind: "keys of `redis`"}
				return
			}
			keysOf(key, v, keys)
		}
		return
	}
	keys[key] = scalarKey(key, v)
}

// scalarKey is what the page says of a key that takes one value, or a list.
func scalarKey(key string, v reflect.Value) wanted {
	w := wanted{byDefault: "–"}
	switch value := v.Interface().(type) {
	case time.Duration:
		w.kind = "duration"
		if value != 0 {
			w.byDefault = short(value)
		}
		return w
	case Level:
		return wanted{"word", logged(v)}
	}
	switch {
	case v.Kind() == reflect.Bool:
		w.kind = "true or false"
	case v.CanInt() || v.CanFloat():
		w.kind = "number"
	case v.Kind() == reflect.Slice:
		w.kind = "list"
	case strings.HasSuffix(key, "_file"):
		w.kind = "file"
	}
	if !v.IsZero() {
		w.byDefault = logged(v)
	}
	return w
}

// short is a duration without zeros at its end.
func short(d time.Duration) string {
	return regexp.MustCompile(`([hm])0[ms](0s)?$`).ReplaceAllString(d.String(), "$1")
}

// docs/configuration.md has every key with its kind and default, and no other. config.yaml
// names each, be it in a comment.
func TestThePageOfTheConfiguration(t *testing.T) {
	t.Parallel()
	page := documentedKeys(t)
	all := new(Config)
	all.SetDefaults()
	shipped, err := os.ReadFile(shipped)
	must(t, err)
	parts := map[string]map[string]wanted{"": {}}
	keysOf("", reflect.ValueOf(*all), parts[""])
	for title, section := range shared {
		parts[title] = map[string]wanted{}
		keysOf("", reflect.New(section).Elem(), parts[title])
	}
	for title, keys := range parts {
		seen := []string{}
		for _, row := range page[title] {
			w, known := keys[row.key]
			switch {
			case !known || slices.Contains(seen, row.key):
				t.Errorf("%s %s is no key, or there twice", title, row.key)
			case w.kind != "" && w.kind != row.kind:
				t.Errorf("%s %s is a %s, the page says %s", title, row.key, w.kind, row.kind)
			case title == "" && w.byDefault != "" && w.byDefault != row.byDefault:
				t.Errorf("%s is %s by default, the page says %s", row.key, w.byDefault, row.byDefault)
			}
			seen = append(seen, row.key)
		}
		for key := range keys {
			if !slices.Contains(seen, key) {
				t.Errorf("%s: the page does not have %s", title, key)
			}
			if name := key[strings.LastIndex(key, ".")+1:]; name != "NAME" && !regexp.MustCompile(`\b`+name+`\b`).Match(shipped) {
				t.Errorf("config.yaml does not name %s", key)
			}
		}
	}
	if len(parts[""]) < 80 {
		t.Errorf("only %d keys", len(parts[""]))
	}
}
