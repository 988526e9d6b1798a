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

// misspelt reports whether a variable begins as a key and names none: one underscore is where
// two belong.
func misspelt(name, text string, tops []string) bool {
	return !foreign(name, text) && slices.ContainsFunc(tops, func(top string) bool { return strings.HasPrefix(name, strings.ToUpper(top)+"_") })
}

// UnknownVariables returns the warnings about an environment: one line for
// each variable that begins with PUSHPACE_ and means nothing. Those that begin
// as a key are faults of Load.
func UnknownVariables(environ []string) []string {
	var odd []string
	tops := fieldTags(reflect.ValueOf(Config{}))
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		variable, text, _ := strings.Cut(entry, "=")
		name, ours := strings.CutPrefix(variable, variablePrefix)
		if !ours || isKey(name, tops) || foreign(name, text) || misspelt(name, text, tops) {
			continue
		}
		odd = append(odd, "unknown variable "+variable)
	}
	return odd
}

// isKey reports whether a variable is taken for one that sets a key.
func isKey(name string, tops []string) bool {
	return strings.Contains(name, separator) || slices.Contains(tops, strings.ToLower(name))
}
