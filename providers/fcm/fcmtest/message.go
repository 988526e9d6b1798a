package fcmtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
)

// The largest messages that FCM takes: 4096 bytes for a kind of device, 2048 to a topic. FCM counts
// the payload. The function size counts a little more.
const (
	maxMessage      = 4096
	maxTopicMessage = 2048
)

// A request is a send request that FCM would take.
type request struct {
	token, fid   string // at most one of them; neither in a message to a topic
	validateOnly bool
	notification string
	payloadBytes int
}

// readRequest reads the body of a send request. The refusal is nil for a valid one.
func readRequest(body []byte) (request, *refusal) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var all map[string]any
	if err := decoder.Decode(&all); err != nil || decoder.More() {
		return request{}, invalidArgument("", "Invalid JSON payload received.")
	}
	if problem := sendRequest.check("", all); problem != nil {
		return request{}, problem
	}
	message, _ := all["message"].(map[string]any)
	if message == nil {
		return request{}, invalidArgument("message", "Message is required.")
	}
	r := request{notification: standin.NotificationID(body)}
	r.validateOnly, _ = either(all, "validate_only", "validateOnly").(bool)
	r.token, _ = message["token"].(string)
	r.fid, _ = message["fid"].(string)
	topic, _ := message["topic"].(string)
	condition, _ := message["condition"].(string)
	targets := 0
	for _, target := range []string{r.token, r.fid, topic, condition} {
		if target != "" {
			targets++
		}
	}
	if targets != 1 {
		return request{}, invalidArgument("message", "Exactly one of fid, token, topic or condition is required.")
	}
	most := maxMessage
	if r.device() == "" {
		most = maxTopicMessage
	}
	var device string
	r.payloadBytes, device = size(message)
	if r.payloadBytes > most {
		problem := device + " message is too big"
		return request{}, &refusal{http.StatusBadRequest, "INVALID_ARGUMENT", problem, []any{
			fcmError("INVALID_ARGUMENT"), badRequest("message", problem),
		}}
	}
	return r, nil
}

// device returns the token or FID; "" for a message to a topic.
func (r *request) device() string { return cmp.Or(r.fid, r.token) }

// isTokenAsFID reports whether the message names a registration token as FID. A token is a FID, a
// colon and more.
func (r *request) isTokenAsFID() bool { return strings.Contains(r.fid, ":") }

func either(m map[string]any, names ...string) any {
	for _, name := range names {
		if v, ok := m[name]; ok {
			return v
		}
	}
	return nil
}

// A kind checks a value, which path names. check returns nil for a valid value.
type kind interface {
	check(path string, value any) *refusal
}

// A fields checks an object by the rules of its fields. Like Google, it accepts the
// protocol's names and their camel case. Source: REST reference of
// projects.messages, v1.
type fields map[string]kind

func (f fields) check(path string, value any) *refusal {
	object, ok := value.(map[string]any)
	if !ok {
		return wrongType(path, "object")
	}
	for name, value := range object {
		k, ok := f[name]
		if !ok {
			k, ok = f[snakeCase(name)]
		}
		if !ok {
			return invalidArgument(path, "Invalid JSON payload received. Unknown name \""+name+"\" at '"+path+"': Cannot find field.")
		}
		if value == nil {
			continue // null means a missing field
		}
		if problem := k.check(join(path, name), value); problem != nil {
			return problem
		}
	}
	return nil
}

// A list checks an array of values of one kind.
type list struct{ of kind }

func (l list) check(path string, value any) *refusal {
	items, ok := value.([]any)
	if !ok {
		return wrongType(path, "array")
	}
	for i, item := range items {
		if problem := l.of.check(path+"["+strconv.Itoa(i)+"]", item); problem != nil {
			return problem
		}
	}
	return nil
}

// A rule checks one value.
type rule func(path string, value any) *refusal

func (r rule) check(path string, value any) *refusal { return r(path, value) }

// The kinds of the fields.
var (
	text = rule(func(path string, value any) *refusal {
		if _, ok := value.(string); !ok {
			return wrongType(path, "TYPE_STRING")
		}
		return nil
	})
	truth = rule(func(path string, value any) *refusal {
		if _, ok := value.(bool); !ok {
			return wrongType(path, "TYPE_BOOL")
		}
		return nil
	})
	count = rule(func(path string, value any) *refusal {
		n, _ := value.(json.Number)
		if _, err := strconv.ParseUint(string(n), 10, 31); err != nil {
			return wrongType(path, "TYPE_INT32")
		}
		return nil
	})
	// part is a component of a color, from 0 to 1.
	part = rule(func(path string, value any) *refusal {
		n, _ := value.(json.Number)
		if f, err := n.Float64(); err != nil || f < 0 || f > 1 {
			return wrongType(path, "TYPE_FLOAT")
		}
		return nil
	})
	anyObject = rule(func(path string, value any) *refusal {
		if _, ok := value.(map[string]any); !ok {
			return wrongType(path, "object")
		}
		return nil
	})
	texts = rule(func(path string, value any) *refusal {
		object, ok := value.(map[string]any)
		if !ok {
			return wrongType(path, "object")
		}
		for _, value := range object {
			if _, ok := value.(string); !ok {
				return invalidArgument(path+"[0].value", "Invalid value at '"+path+"[0].value' (TYPE_STRING)")
			}
		}
		return nil
	})
	data = rule(func(path string, value any) *refusal {
		if problem := texts(path, value); problem != nil {
			return problem
		}
		for name := range value.(map[string]any) {
			if name == "from" || name == "message_type" || strings.HasPrefix(name, "google.") || strings.HasPrefix(name, "gcm.") {
				return invalidArgument(path, "Invalid data payload key: "+name)
			}
		}
		return nil
	})
	instant = rule(func(path string, value any) *refusal {
		s, _ := value.(string)
		_, fraction, _ := strings.Cut(s, ".")
		fraction = strings.TrimRight(fraction, "Zz")
		if _, err := time.Parse(time.RFC3339Nano, s); err != nil || strings.Contains(s, ",") || len(fraction) > len("123456789+01:00") {
			return invalidArgument(path, "Invalid time format at '"+path+"'")
		}
		return nil
	})
	duration = rule(func(path string, value any) *refusal {
		if _, ok := seconds(value); !ok {
			return invalidArgument(path, "Invalid duration format at '"+path+"'")
		}
		return nil
	})
	// ttl is a duration of at most four weeks.
	ttl = rule(func(path string, value any) *refusal {
		if s, ok := seconds(value); !ok || s > mostSeconds {
			return invalidArgument(path, "Invalid ttl: it is a duration from 0 to 2419200 seconds, such as 3.5s")
		}
		return nil
	})
)

// oneOf returns a rule that accepts only the given words.
func oneOf(words ...string) rule {
	return func(path string, value any) *refusal {
		s, _ := value.(string)
		for _, word := range words {
			if s == word {
				return nil
			}
		}
		return invalidArgument(path, "Invalid value at '"+path+"' (TYPE_ENUM)")
	}
}

// seconds reads a duration as protocol buffers write it in JSON: "3.5s", with
// up to nine digits after the point.
func seconds(value any) (float64, bool) {
	s, _ := value.(string)
	s, ok := strings.CutSuffix(s, "s")
	whole, fraction, point := strings.Cut(s, ".")
	if !ok || !digits(whole) || len(whole) > 12 || point && (!digits(fraction) || len(fraction) > 9) {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func wrongType(path, want string) *refusal {
	return invalidArgument(path, "Invalid value at '"+path+"' ("+want+")")
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// snakeCase writes collapseKey as collapse_key.
func snakeCase(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}
