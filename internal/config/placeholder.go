package config

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/pushpace/pushpace/internal/base/names"
)

var (
	// placeholder matches the placeholders of shells, Kubernetes, Helm and other templates:
	// ${NAME}, $(NAME), $NAME, {{ .name }}, <% name %>. Nothing replaces them here.
	placeholder = regexp.MustCompile(`\$\{|\$\([A-Za-z_][A-Za-z0-9_]*\)|^\$[A-Za-z_][A-Za-z0-9_]+|\$[A-Z_][A-Z0-9_]+|\{\{|<%`)
	// windowsPlaceholder matches %NAME%, which in a URL may be an escaped character.
	windowsPlaceholder = regexp.MustCompile(`%[A-Za-z_][A-Za-z0-9_]{2,}%`)
	// wholePlaceholder matches a value that is only a placeholder: a part of a password may look
	// like a placeholder.
	wholePlaceholder = regexp.MustCompile(`^\s*(?:\$\{[^{}]*\}|\$\([A-Za-z_][A-Za-z0-9_]*\)|\$[A-Z_][A-Z0-9_]+|\{\{.*\}\}|<%.*%>|%[A-Za-z_][A-Za-z0-9_]{2,}%)\s*$`)
)

// hasPlaceholder reports whether a text contains a placeholder. It is not meant for secrets,
// which may contain such characters.
func hasPlaceholder(text string) bool {
	return placeholder.MatchString(text) || windowsPlaceholder.MatchString(text) && !strings.Contains(text, "://")
}

// placeholderFault returns the problem of a value with a placeholder, "" without one. The
// text does not repeat the value.
func (d *decoder) placeholderFault(key, text string, secret bool) string {
	if secret && !wholePlaceholder.MatchString(text) || !secret && !hasPlaceholder(text) {
		return ""
	}
	ways := "write the value itself"
	if variable := variableOf(key); variable != "" && d.origin[key].Variable == "" {
		ways += ", or set it by " + variable
	}
	if secret {
		ways += ", or name its file in " + key[strings.LastIndexByte(key, '.')+1:] + "_file"
	}
	return "has a placeholder such as ${NAME}, which nothing replaces: " + ways
}

// valueFault is placeholderFault, and also refuses white space at the ends of a value, except
// of a secret.
func (d *decoder) valueFault(key, text string, v reflect.Value) string {
	secret := v.Type() == reflect.TypeFor[Secret]()
	if fault := d.placeholderFault(key, text, secret); fault != "" || secret {
		return fault
	}
	return names.Ends(text)
}

// variableOf returns the variable that sets a key; "" for a key below a list: no variable sets it.
func variableOf(key string) string {
	var parts []string
	for rest := key; rest != ""; {
		name := rest
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			name, _ = strconv.Unquote(quoted)
			rest = rest[len(quoted):]
		} else {
			name = rest
			if end := strings.IndexAny(rest, ".["); end >= 0 {
				name = rest[:end]
			}
			rest = rest[len(name):]
		}
		parts = append(parts, variablePart(name))
		if strings.HasPrefix(rest, "[") {
			if _, rest, _ = strings.Cut(rest, "]"); rest != "" {
				return ""
			}
		}
		rest = strings.TrimPrefix(rest, ".")
	}
	return variablePrefix + strings.Join(parts, separator)
}
