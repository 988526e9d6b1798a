package console

import "testing"

// The navigation marks the current page, or else the nearest one above.
func TestNavigation(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][2]string{
		"/console/":                 {"Overview", "page"},
		"/console/limits":           {"Limits", "page"},
		"/console/limits/log":       {"Limits", "true"},
		"/console/dead-letters/one": {"Dead letters", "true"},
		"/console/users/waiting":    {},
	} {
		var got [2]string
		for _, p := range navigation(path) {
			if p.Current != "" {
				got = [2]string{p.Label, p.Current}
			}
		}
		if got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
