// Package suggest finds the name that a user probably meant to type. Start with Hint.
package suggest

import (
	"strconv"
	"strings"
)

// Name returns the name closest to the mistyped one, which may differ in at most a third of its
// letters; "" if no name is as close. An extra, a missing or a wrong letter, or two swapped letters,
// count as one difference. Case does not count.
func Name(mistyped string, names []string) string {
	const longest = 128 // longer input is not a mistyped name
	typed := []rune(strings.ToLower(mistyped))
	if len(typed) > longest {
		return ""
	}
	best, least := "", len(typed)/3+1
	for _, name := range names {
		if d := distance(typed, []rune(strings.ToLower(name)), least); d < least {
			best, least = name, d
		}
	}
	return best
}

// Hint returns Name's result as the end of an error text; "" if there is none.
func Hint(mistyped string, names []string) string {
	name := Name(mistyped, names)
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}

// UnknownApp returns the fault of an app's name that is not in apps, as the end of a sentence.
func UnknownApp(name string, apps []string) string {
	fault := "is not one of the configuration's apps"
	if len(apps) > 0 {
		fault += ": " + joinFirst(apps) + Hint(name, apps)
	}
	return fault
}

// joinFirst joins the first ten names.
func joinFirst(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(len(names)-most) + " more"
}

// distance returns the number of edits between a and b. If that is limit or more, the result may be
// any number from limit on. Source: the optimal string alignment distance.
func distance(a, b []rune, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			other := 0
			if a[i-1] != b[j-1] {
				other = 1
			}
			row[j] = min(row[j-1]+1, last[j]+1, last[j-1]+other)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
