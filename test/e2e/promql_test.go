//go:build e2e && unix

package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A series is what the program's output has of one metric: the names of its labels
// with their values.
type series map[string]map[string]bool

// parseMetrics reads the text format.
func parseMetrics(text string) map[string]series {
	all := map[string]series{}
	label := regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
	for line := range strings.Lines(text) {
		m := regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? \S+\n$`).FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if all[m[1]] == nil {
			all[m[1]] = series{}
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			if all[m[1]][l[1]] == nil {
				all[m[1]][l[1]] = map[string]bool{}
			}
			all[m[1]][l[1]][l[2]] = true
		}
	}
	return all
}

var (
	promWord     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	promString   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	promSelector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^{}]*)\}`)
	promMatcher  = regexp.MustCompile(`^\s*([a-z_]+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")\s*$`)
	promRange    = regexp.MustCompile(`\[(?:\d+[smhd]|\$__rate_interval)\]`)
	promGrouping = regexp.MustCompile(`\b(?:by|without|on) \(([a-z_, ]*)\)`)
	promNumber   = regexp.MustCompile(`\b\d+(?:\.\d+)?\b`)
	promRest     = regexp.MustCompile(`^[\s()+*/<>=,.-]*$`)
)

// promKnown are the words of PromQL that are used here.
var promKnown = []string{"sum", "max", "min", "rate", "increase", "histogram_quantile", "time", "abs", "and", "or", "unless"}

// checkPromQL returns what is wrong with an expression, given what the program
// tells. It knows as much of PromQL as is used here, and refuses the rest.
func checkPromQL(expr string, told map[string]series) (metrics []string, err error) {
	rest := expr
	for _, m := range promSelector.FindAllStringSubmatch(expr, -1) {
		for matcher := range strings.SplitSeq(m[2], ",") {
			part := promMatcher.FindStringSubmatch(matcher)
			switch {
			case part == nil:
				return nil, fmt.Errorf("the matcher %q", matcher)
			case m[1] == "up": // Prometheus's own
			case told[m[1]][part[1]] == nil:
				return nil, fmt.Errorf("%s has no label %s", m[1], part[1])
			case part[2] == "=" && !told[m[1]][part[1]][strings.Trim(part[3], `"`)]:
				return nil, fmt.Errorf("%s has no %s", m[1], matcher)
			}
		}
		rest = strings.Replace(rest, m[0], m[1], 1)
	}
	var groups []string
	for _, m := range promGrouping.FindAllStringSubmatch(rest, -1) {
		groups = append(groups, strings.Split(m[1], ", ")...)
	}
	rest = promGrouping.ReplaceAllString(promRange.ReplaceAllString(rest, ""), "")
	if promString.MatchString(rest) || strings.Count(rest, "(") != strings.Count(rest, ")") {
		return nil, fmt.Errorf("a string or a bracket is where none belongs")
	}
	for _, word := range promWord.FindAllString(rest, -1) {
		if word == "up" || slices.Contains(promKnown, word) {
			continue
		}
		if told[word] == nil {
			return nil, fmt.Errorf("the program tells no %s", word)
		}
		metrics = append(metrics, word)
	}
	for _, group := range groups {
		if group != "instance" && !slices.ContainsFunc(metrics, func(m string) bool { return told[m][group] != nil }) {
			return nil, fmt.Errorf("no label %s to group by", group)
		}
	}
	if left := promNumber.ReplaceAllString(promWord.ReplaceAllString(rest, ""), ""); !promRest.MatchString(left) {
		return nil, fmt.Errorf("%q is not understood", left)
	}
	return metrics, nil
}

// family is the metric that a sample belongs to.
func family(sample string, told map[string]series) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(sample, suffix); ok && told[name+"_bucket"] != nil {
			return name
		}
	}
	return sample
}

// families are all metrics of ours that the program tells.
func families(told map[string]series) []string {
	ours := map[string]bool{}
	for name := range told {
		if strings.HasPrefix(name, "pushpace_") {
			ours[family(name, told)] = true
		}
	}
	return slices.Sorted(maps.Keys(ours))
}
