package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/pushpace/pushpace/push"
)

// Wherever the API's document and the notification's schema name platforms or push services,
// they name those of push; and a notification has a raw block for each platform.
func TestTheDocumentsHaveThePlatforms(t *testing.T) {
	t.Parallel()
	notification, err := os.ReadFile("../../push/notification.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{"openapi.json": document, "notification.schema.json": notification} {
		var all any
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		enums, notifications := 0, 0
		var look func(at string, v any)
		look = func(at string, v any) {
			switch v := v.(type) {
			case map[string]any:
				if enum, ok := v["enum"].([]any); ok && namesPlatform(enum) {
					if enums++; !slices.ContainsFunc(enumerations(), func(all []string) bool { return slices.Equal(texts(enum), all) }) {
						t.Errorf("%s%s: the enum is %q, want one of %q", file, at, enum, enumerations())
					}
				}
				properties, _ := v["properties"].(map[string]any)
				if platform, ok := properties["platform"].(map[string]any); ok && platform["enum"] == nil && platform["$ref"] == nil {
					t.Errorf("%s%s: a platform has no enum", file, at)
				}
				if _, ok := properties["targets"]; ok && properties["push_type"] != nil {
					notifications++
					for _, name := range platforms() {
						if properties[name] == nil {
							t.Errorf("%s%s: a notification has no block %s", file, at, name)
						}
					}
				}
				for _, name := range slices.Sorted(maps.Keys(v)) {
					look(at+"/"+name, v[name])
				}
			case []any:
				for i, item := range v {
					look(fmt.Sprint(at, "/", i), item)
				}
			}
		}
		look("", all)
		if enums == 0 || notifications == 0 {
			t.Errorf("%s: %d enums and %d notifications were found", file, enums, notifications)
		}
	}
}

// platforms are push's, as text.
func platforms() (names []string) {
	for _, p := range push.Platforms() {
		names = append(names, string(p))
	}
	return names
}

// enumerations are the lists that there may be: platforms, push services, or both.
func enumerations() [][]string {
	var services, both []string
	for _, p := range push.Platforms() {
		both = append(both, string(p))
		for _, service := range push.Services(p) {
			if services = append(services, string(service)); service != p {
				both = append(both, string(service))
			}
		}
	}
	return [][]string{platforms(), services, both}
}

// namesPlatform reports whether one of the values is a platform's name.
func namesPlatform(enum []any) bool {
	return slices.ContainsFunc(texts(enum), func(name string) bool { return slices.Contains(platforms(), name) })
}

// texts are the values that are texts.
func texts(values []any) (all []string) {
	for _, v := range values {
		if text, ok := v.(string); ok {
			all = append(all, text)
		}
	}
	return all
}
