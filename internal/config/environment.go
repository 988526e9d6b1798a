package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// variablePrefix begins the variables that set a key.
const variablePrefix = "PUSHPACE_"

// separator separates the parts of a key's path in a variable.
const separator = "__"

// environment sets the keys that variables name in a Config.
//
// A variable is PUSHPACE_ and the key's path in capitals, joined by "__":
// PUSHPACE_LIMITS__DEFAULT__MIN_GAP. The name of an app or a category is written
// in capitals too, with "_" for every byte but a letter or a digit. It means the
// name in the file with this spelling; if there is none, a new name in small
// letters: PUSHPACE_APPS__SHOP__APNS__KEY_FILE. A list is separated by commas,
// and replaces the file's. A relative path starts at the working directory.
//
// A variable that has "__", or begins with a top-level key, and names no key is a
// fault. Any other unknown variable that begins with PUSHPACE_ causes a warning.
func (d *decoder) environment(environ []string, into *Config) {
	root := reflect.ValueOf(into).Elem()
	tops := fieldTags(root)
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		variable, text, _ := strings.Cut(entry, "=")
		name, ours := strings.CutPrefix(variable, variablePrefix)
		first, _, _ := strings.Cut(name, "_")
		top := slices.Contains(tops, strings.ToLower(first))
		switch {
		case !ours:
		case strings.Contains(name, separator), top && first == name:
			d.variable(assignment{variable, text}, "", strings.Split(name, separator), root)
		case foreign(name, text):
		case top:
			d.faults = append(d.faults, Fault{Variable: variable, Message: "unknown variable; the parts of a key are joined by " + separator})
		default:
			into.warnings = append(into.warnings, "unknown variable "+variable)
		}
	}
}

// assignment is one variable of the environment.
type assignment struct{ variable, text string }

// variable sets the value at the path parts below v, the value of key.
func (d *decoder) variable(a assignment, key string, parts []string, v reflect.Value) {
	fault := func(message string) {
		d.faults = append(d.faults, Fault{Variable: a.variable, Key: key, Message: message})
	}
	if v.Kind() == reflect.Pointer {
		d.variable(a, key, parts, allocate(v))
		return
	}
	if address, ok := v.Addr().Interface().(*Address); ok {
		d.addressVariable(a, key, parts, address)
		return
	}
	if section, ok := v.Addr().Interface().(named); ok && len(parts) == 0 {
		d.origin[key] = Fault{Variable: a.variable}
		d.name(key, a.text, section)
		return
	}
	group := !isText(v) && (v.Kind() == reflect.Struct || v.Kind() == reflect.Map)
	switch {
	case group && len(parts) == 0:
		fault("is not one value: go on with " + separator + " and a key below it")
	case group && v.Kind() == reflect.Struct:
		name := strings.ToLower(parts[0])
		field, ok := fieldByTag(v, name)
		if !ok || parts[0] != strings.ToUpper(name) {
			fault(unknownKey(fieldTags(v)))
			return
		}
		d.variable(a, join(key, name), parts[1:], field)
		d.pathOf(join(key, name), name, ".", field)
	case group:
		name, err := elementName(v, parts[0])
		if err != nil {
			fault(err.Error())
			return
		}
		if _, known := d.origin[join(key, name)]; !known {
			d.origin[join(key, name)] = Fault{Variable: a.variable}
		}
		setElement(v, name, func(element reflect.Value) { d.variable(a, join(key, name), parts[1:], element) })
	case isList(v):
		fault("is a list of keys with values: set it in the file")
	case len(parts) > 0:
		fault("is one value, with no key below it")
	default:
		d.origin[key] = Fault{Variable: a.variable}
		d.value(key, a.text, v)
	}
}

// isList reports whether v is a list of sections.
func isList(v reflect.Value) bool {
	return v.Kind() == reflect.Slice && isSection(reflect.New(v.Type().Elem()).Elem())
}

// isSection reports whether v has keys below it.
func isSection(v reflect.Value) bool {
	return v.Kind() == reflect.Struct && len(fieldsOf(v.Type())) > 0
}

// value sets a scalar or a list of scalars.
func (d *decoder) value(key, text string, v reflect.Value) {
	if v.Kind() != reflect.Slice {
		d.text(key, text, v)
		return
	}
	parts := splitList(text)
	list := reflect.MakeSlice(v.Type(), len(parts), len(parts))
	for i, part := range parts {
		d.text(index(key, i), part, list.Index(i))
	}
	v.Set(list)
}

// addressVariable sets an address from its one-line form, or one part of an
// address by Sentinels.
func (d *decoder) addressVariable(a assignment, key string, parts []string, into *Address) {
	d.origin[key] = Fault{Variable: a.variable}
	if len(parts) == 0 {
		d.addressText(key, a.text, into)
		return
	}
	var form sentinelForm
	if into.Mode == Sentinel {
		form = sentinelForm{into.Master, into.Hosts}
	}
	d.variable(a, key, parts, reflect.ValueOf(&form).Elem())
	*into = form.address()
}

// elementName returns the name in a map that a part of a variable means.
func elementName(m reflect.Value, part string) (string, error) {
	if part == "" {
		return "", errors.New("a name is empty")
	}
	var names []string
	for _, name := range m.MapKeys() {
		if variablePart(name.String()) == part {
			names = append(names, name.String())
		}
	}
	switch len(names) {
	case 0:
		if part != variablePart(part) {
			return "", errors.New("want the name in capitals, with _ for what is no letter or digit")
		}
		name := strings.ToLower(part)
		if message := nameFault(name); message != "" {
			return "", errors.New(message)
		}
		return name, nil
	case 1:
		return names[0], nil
	}
	slices.Sort(names)
	return "", fmt.Errorf("stands for each of %q: set it in the file", names)
}

// variablePart spells a name as a part of a variable.
func variablePart(name string) string {
	b := []byte(strings.ToUpper(name))
	for i, c := range b {
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			b[i] = '_'
		}
	}
	return string(b)
}

// Variables that begin with PUSHPACE_ but set no key: commands and tests read the first ones, and
// Kubernetes sets the others in every pod for services with names that begin with pushpace.
var (
	otherVariables  = []string{"CONFIG", "API", "API_TOKEN", "REDIS_SERVER"}
	serviceVariable = regexp.MustCompile(`^([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	servicePort     = regexp.MustCompile(`^([A-Z0-9_]+_)?PORT$`)
)

const testVariables = "REQUIRE_"

// foreign reports whether a variable, without PUSHPACE_, is another program's.
func foreign(name, text string) bool {
	return slices.Contains(otherVariables, name) || strings.HasPrefix(name, testVariables) ||
		serviceVariable.MatchString(name) || servicePort.MatchString(name) && strings.Contains(text, "://")
}
