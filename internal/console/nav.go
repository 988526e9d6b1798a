package console

import (
	"slices"
	"strings"
)

// A place is a page that the navigation of every page links to.
type place struct {
	Label, Path string
	// Current is the value of aria-current: "page" on this page, "true" below it, "" elsewhere.
	Current string
}

var places = []place{
	{Label: "Overview", Path: Path},
	{Label: "Waiting", Path: Path + "waiting"},
	{Label: "Dead letters", Path: Path + "dead-letters"},
	{Label: "Pauses", Path: Path + "pauses"},
	{Label: "Providers", Path: Path + "providers"},
	{Label: "Limits", Path: Path + "limits"},
	{Label: "Actions", Path: Path + "actions"},
}

// navigation returns the places with Current set for path.
func navigation(path string) []place {
	seen := slices.Clone(places)
	nearest := -1
	for i, p := range seen {
		switch {
		case p.Path == path:
			seen[i].Current = "page"
			return seen
		case p.Path != Path && strings.HasPrefix(path, p.Path+"/"):
			nearest = i
		}
	}
	if nearest >= 0 {
		seen[nearest].Current = "true"
	}
	return seen
}
