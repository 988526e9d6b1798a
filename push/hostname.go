package push

import "strings"

// IsHostName reports whether name is a host name in lower case with at least two labels. The last label
// begins with a letter, unlike that of an IP address.
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
