package fcmtest

import (
	"encoding/json"
	"maps"
	"unicode/utf8"
)

// devices has the kind of device for each part of a message.
var devices = map[string]string{"android": "Android", "apns": "APNS", "webpush": "Webpush"}

// size returns the size in bytes of a message decoded from JSON, and the kind of device with the
// largest message. FCM sends each kind its own message: headers do not count, and texts of the
// kind's part replace the common texts.
func size(message map[string]any) (most int, device string) {
	for part, name := range devices {
		if n := jsonSize(sentTo(message, part)); n > most || n == most && name < device {
			most, device = n, name
		}
	}
	return most, device
}

// sentTo returns the message for a kind of device.
func sentTo(message map[string]any, part string) map[string]any {
	sent := map[string]any{}
	for _, name := range []string{"data", "notification", "fcm_options", "fcmOptions", part} {
		if value, ok := message[name]; ok {
			sent[name] = value
		}
	}
	own, _ := sent[part].(map[string]any)
	if own == nil {
		return sent
	}
	own = maps.Clone(own)
	sent[part] = own
	delete(own, "headers")
	texts, _ := sent["notification"].(map[string]any)
	texts = maps.Clone(texts)
	replace := func(by any, names ...string) {
		object, _ := by.(map[string]any)
		for _, name := range names {
			if object[name] != nil {
				delete(texts, name)
			}
		}
	}
	switch part {
	case "webpush":
		replace(own["notification"], "title", "body", "image")
	case "apns":
		replace(either(own, "fcm_options", "fcmOptions"), "image")
		payload, _ := own["payload"].(map[string]any)
		if aps, _ := payload["aps"].(map[string]any); aps["alert"] != nil {
			delete(texts, "title")
			delete(texts, "body")
		}
	case "android":
		replace(own["notification"], "title", "body", "image")
	}
	if texts != nil {
		sent["notification"] = texts
	}
	return sent
}

// jsonSize returns how many bytes a decoded value has as compact JSON, with <, > and & unescaped.
func jsonSize(value any) int {
	switch v := value.(type) {
	case string:
		return stringSize(v)
	case json.Number:
		return len(v)
	case bool:
		if v {
			return len("true")
		}
		return len("false")
	case []any:
		n := len("[]") + max(0, len(v)-1)
		for _, item := range v {
			n += jsonSize(item)
		}
		return n
	case map[string]any:
		n := len("{}") + max(0, len(v)-1)
		for name, member := range v {
			n += stringSize(name) + len(":") + jsonSize(member)
		}
		return n
	}
	return len("null")
}

func stringSize(s string) int {
	n := len(s) + len(`""`)
	for _, c := range s {
		switch {
		case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		case c == '\u2028', c == '\u2029':
			n += len(`\u0000`) - utf8.RuneLen(c)
		}
	}
	return n
}
