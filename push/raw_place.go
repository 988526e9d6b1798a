package push

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/base/suggest"
)

// legacyNames maps names of FCM's legacy API to today's.
var legacyNames = map[string]string{
	"time_to_live": "ttl", "android_channel_id": "channel_id", "registration_ids": "token", "to": "token", "dry_run": "validate_only",
}

// notificationFields are the names of a notification's fields.
var notificationFields = func() []string {
	var names []string
	for f := range reflect.TypeFor[Notification]().Fields() {
		names = append(names, strictjson.Name(f))
	}
	return names
}()

// place returns where an unknown member belongs, as the end of a sentence; "" if it belongs nowhere.
func (c checker) place(s *shape, name string) string {
	for _, known := range slices.Sorted(maps.Keys(s.fields)) {
		if foldName(known) == foldName(name) {
			return ": its name is " + known
		}
	}
	sought := cmp.Or(legacyNames[name], name)
	switch foldName(sought) {
	case "message":
		return ": the block is the message itself"
	case "token", "fid", "topic", "condition":
		return ": the notification's targets say where it goes"
	case "validateonly":
		return ": the app's dry_run in the configuration asks for it"
	}
	if places := c.root.places(sought); len(places) > 0 {
		return ": it belongs in " + strings.Join(places[:min(len(places), 2)], " or ")
	}
	if slices.Contains(notificationFields, name) {
		return ": it is a field of the notification, outside of the block"
	}
	for _, p := range platforms {
		if places := p.shape.places(sought); p.shape != c.root && len(places) > 0 {
			return ": it belongs in the block " + string(p.name) + ", in " + places[0]
		}
	}
	return suggest.Hint(name, slices.Sorted(maps.Keys(s.fields)))
}

// places returns the paths of all fields of that name, in any spelling, the shortest path
// first.
func (s *shape) places(name string) []string {
	var found []string
	var visit func(s *shape, path string)
	visit = func(s *shape, path string) {
		if s == nil {
			return
		}
		for _, known := range slices.Sorted(maps.Keys(s.fields)) {
			at := strings.TrimPrefix(path+"."+known, ".")
			if foldName(known) == foldName(name) {
				found = append(found, at)
			}
			visit(s.fields[known], at)
		}
	}
	visit(s, "")
	slices.SortStableFunc(found, func(a, b string) int { return strings.Count(a, ".") - strings.Count(b, ".") })
	return found
}

// foldName returns the same for collapse_key, collapseKey and collapse-key.
func foldName(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

// isOtherBlock returns the fault of a payload's member that is a block or a part of a
// message; "" for none.
func isOtherBlock(name string, value any) string {
	if _, isObject := value.(map[string]any); !isObject {
		return ""
	}
	switch name {
	case string(APNs), string(FCM), string(PlatformWebPush), "android":
		return "is no part of the payload: apns, fcm and webpush are blocks of the notification, and android belongs in fcm"
	}
	return ""
}
