package fcmtest

import (
	"encoding/json"
	"unicode/utf8"
)

// size returns the bytes that count of a message that was decoded from JSON.
func size(message map[string]any) int {
	counted := jsonSize(message)
	members := len(message)
	for _, target := range []string{"token", "topic", "condition"} {
		if value, ok := message[target]; ok {
			counted -= stringSize(target) + len(":") + jsonSize(value)
			if members--; members > 0 {
				counted -= len(",")
			}
		}
	}
	return counted
}

// jsonSize returns how many bytes a decoded value has as compact JSON, with <, >
// and & as they are.
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
