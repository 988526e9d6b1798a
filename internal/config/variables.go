package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// The variables that begin with PUSHPACE_ and are not the configuration's: those
// that commands and tests read, and those that Kubernetes sets in every pod for
// services whose names begin with pushpace.
var (
	commandVariables = []string{"CONFIG", "API", "API_TOKEN"}
	serviceVariable  = regexp.MustCompile(`^([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	servicePort      = regexp.MustCompile(`^([A-Z0-9_]+_)?PORT$`)
)

const testVariables = "REQUIRE_"

// foreign reports whether a variable, without PUSHPACE_, is another program's.
func foreign(name, text string) bool {
	return slices.Contains(commandVariables, name) || strings.HasPrefix(name, testVariables) ||
		serviceVariable.MatchString(name) || servicePort.MatchString(name) && strings.Contains(text, "://")
}

// misspelt answers what a variable that names no key has to be called: it spells
// one but for its underscores. "" when it does not, and for another program's.
func misspelt(name, text string) string {
	if foreign(name, text) {
		return ""
	}
	path, ok := spell(strings.ToUpper(name), reflect.TypeFor[Config]())
	if !ok {
		return ""
	}
	return variablePrefix + strings.Join(path, separator)
}

// spell takes the text apart into the path of a key below t. A name in a map ends
// at an underscore.
func spell(text string, t reflect.Type) ([]string, bool) {
	text = strings.TrimLeft(text, "_")
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case text == "" && reflect.PointerTo(t).Implements(reflect.TypeFor[named]()):
		return nil, true
	case t == reflect.TypeFor[Address]() && text != "":
		t = reflect.TypeFor[sentinelForm]()
	case isText(reflect.New(t).Elem()) || t.Kind() != reflect.Struct && t.Kind() != reflect.Map || t == reflect.TypeFor[Address]():
		return nil, text == ""
	}
	if t.Kind() == reflect.Map {
		for end, c := range text {
			if c != '_' {
				continue
			}
			if below, ok := spell(text[end:], t.Elem()); ok {
				return append([]string{text[:end]}, below...), true
			}
		}
		return nil, false
	}
	for _, f := range reflect.VisibleFields(t) {
		tag := strings.ToUpper(tagOf(f))
		rest, ok := cutLetters(text, tag)
		if tag == "" || !ok {
			continue
		}
		if below, ok := spell(rest, f.Type); ok {
			return append([]string{tag}, below...), true
		}
	}
	return nil, false
}

// cutLetters cuts a key's name from the beginning of text, wherever either has
// underscores.
func cutLetters(text, name string) (rest string, ok bool) {
	for _, c := range []byte(name) {
		if c == '_' {
			continue
		}
		text = strings.TrimLeft(text, "_")
		if text == "" || text[0] != c {
			return "", false
		}
		text = text[1:]
	}
	return text, true
}

// UnknownVariables returns the warnings about an environment: one line for
// each variable that begins with PUSHPACE_ and means nothing. Those that are
// nearly a key are faults of Load.
func UnknownVariables(environ []string) []string {
	var odd []string
	tops := fieldTags(reflect.ValueOf(new(Config)).Elem())
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		variable, text, _ := strings.Cut(entry, "=")
		name, ours := strings.CutPrefix(variable, variablePrefix)
		if !ours || isKey(name, tops) || foreign(name, text) || misspelt(name, text) != "" {
			continue
		}
		odd = append(odd, variable+": names no key of the configuration, and has no effect")
	}
	return odd
}

// isKey reports whether a variable is taken for one that sets a key.
func isKey(name string, tops []string) bool {
	return strings.Contains(name, separator) || slices.Contains(tops, strings.ToLower(name))
}
