package push

import "strings"

// IsHostName reports whether name is one of a host in lower case: two labels or more, the
// last of which begins with a letter, as no address's does.
func IsHostName(name string) bool {
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(labels) > 1 && len(name) <= 253 && last[0] >= 'a' && last[0] <= 'z'
}
