package fcmtest

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// form returns a rule for texts for which good returns true.
func form(problem string, good func(string) bool) rule {
	return func(path string, value any) *refusal {
		s, ok := value.(string)
		if !ok {
			return wrongType(path, "TYPE_STRING")
		}
		if !good(s) {
			return invalidArgument(path, problem)
		}
		return nil
	}
}

// The kinds of texts with a form in FCM's documentation. Sources: REST reference of
// projects.messages, v1; "Understanding message delivery".
var (
	label = form("Invalid analytics label.", regexp.MustCompile(`^[a-zA-Z0-9\-_.~%]{1,50}$`).MatchString)
	color = form("Color must be in the form #RRGGBB", regexp.MustCompile(`^#[0-9a-fA-F]{6}$`).MatchString)
	image = form("Invalid image URL.", func(s string) bool { return s == "" || isURL(s, "https", "http") })
	link  = form("Invalid link: HTTPS is required.", func(s string) bool { return isURL(s, "https") })
)

func isURL(s string, schemes ...string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return false
	}
	for _, scheme := range schemes {
		if u.Scheme == scheme {
			return true
		}
	}
	return false
}

// A needs checks an object that must have all of its fields.
type needs struct{ all fields }

func (n needs) check(path string, value any) *refusal {
	if problem := n.all.check(path, value); problem != nil {
		return problem
	}
	object, _ := value.(map[string]any)
	for name := range n.all {
		if object[name] == nil && object[camelCase(name)] == nil {
			return invalidArgument(join(path, name), "Missing required field "+name)
		}
	}
	return nil
}

func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// headers returns a rule for headers. forms checks the value of a header, by its name in lower
// case.
func headers(forms map[string]func(string) bool) rule {
	name := regexp.MustCompile("^[a-zA-Z0-9!#$%&'*+.^_`|~-]+$")
	printable := regexp.MustCompile(`^([!-~]([ -~]*[!-~])?)?$`)
	return func(path string, value any) *refusal {
		if problem := texts(path, value); problem != nil {
			return problem
		}
		for header, value := range value.(map[string]any) {
			text, _ := value.(string)
			form := forms[strings.ToLower(header)]
			if !name.MatchString(header) || !printable.MatchString(text) || form != nil && !form(text) {
				return invalidArgument(path, "Invalid header "+strconv.Quote(header))
			}
		}
		return nil
	}
}

// The headers of the two protocols that FCM passes on.
// Sources: Apple, "Sending notification requests to APNs"; RFC 8030, section 5.
var (
	apnsHeaders = headers(map[string]func(string) bool{
		"apns-priority":    regexp.MustCompile(`^(1|5|10)$`).MatchString,
		"apns-expiration":  regexp.MustCompile(`^[0-9]{1,18}$`).MatchString,
		"apns-collapse-id": regexp.MustCompile(`^.{1,64}$`).MatchString,
		"apns-push-type":   regexp.MustCompile(`^(alert|background|location|voip|complication|fileprovider|mdm|liveactivity|pushtotalk|widgets|controls)$`).MatchString,
	})
	webpushHeaders = headers(map[string]func(string) bool{
		"ttl": func(s string) bool {
			n, err := strconv.ParseUint(s, 10, 32)
			return err == nil && n <= mostSeconds
		},
		"urgency": regexp.MustCompile(`^(very-low|low|normal|high)$`).MatchString,
		"topic":   regexp.MustCompile(`^[a-zA-Z0-9_-]{1,32}$`).MatchString,
	})
)

// mostSeconds is the longest time for which FCM keeps a message.
const mostSeconds = 2_419_200

// apnsPayload checks the types of the values in a payload's dictionary aps. Everything outside aps
// is accepted. Source: Apple, "Generating a remote notification".
var apnsPayload = rule(func(path string, value any) *refusal {
	if problem := anyObject(path, value); problem != nil {
		return problem
	}
	payload, _ := value.(map[string]any)
	if payload["aps"] == nil {
		return nil
	}
	aps, ok := payload["aps"].(map[string]any)
	if !ok {
		return wrongType(join(path, "aps"), "object")
	}
	for name, value := range aps {
		good := value == nil
		switch value := value.(type) {
		case string:
			good = name != "badge" && name != "content-available" && name != "mutable-content"
		case json.Number:
			good = name != "alert" && name != "sound"
			if name == "badge" || name == "content-available" || name == "mutable-content" {
				_, err := strconv.ParseUint(string(value), 10, 63)
				good = err == nil
			}
		case map[string]any:
			good = name != "badge" && name != "content-available" && name != "mutable-content"
		case bool, []any:
			good = name != "alert" && name != "badge" && name != "sound" && name != "content-available" && name != "mutable-content"
		}
		if !good {
			return invalidArgument(join(path, "aps"), "Invalid APNS payload: "+name)
		}
	}
	return nil
})
