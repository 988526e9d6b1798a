package compare

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"now={min_gap: 1s, rates: [10/1m, 100/24h]}":                    "rolling 1s apart 10/1m 100/24h",
		"gap={min_gap: 1s}":                                             "rolling 1s apart",
		"quota={rate: 600/1m}":                                          "token_bucket 600/1m",
		"quota={rate: 600000/1m, ramp: 1m, promise: true}":              "token_bucket promised 600000/1m",
		"a.b-c={rates: [3/1s, 20/1m], algorithm: sliding_window}":       "sliding_window 3/1s 20/1m",
		"cells={rate: 3/1s, algorithm: published_window, cells: 5}":     "published_window 3/1s",
		"floored={rate: 3/1s, algorithm: published_bucket, burst: 100}": "published_bucket 3/1s",
	} {
		got, err := Parse([]string{text})
		if err != nil || got[0].Limit() != want || got[0].Name != text[:strings.Index(text, "=")] {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"", "want NAME=SPEC"},
		{"{rate: 1/1s}", "want NAME=SPEC"},
		{"a b={rate: 1/1s}", "want NAME=SPEC"},
		{"<a>={rate: 1/1s}", "want NAME=SPEC"},
		{"a=", "a: there is no rate"},
		{"a={}", "a: there is no rate"},
		{"a={rate: 1/1s", "a: "},
		{"a=[1/1s]", "a: "},
		{"a={rate: many}", "a: rate \"many\": there is no slash"},
		{"a={rate: 0/1m}", "a: rate \"0/1m\": the count is not positive"},
		{"a={rates: [1/1s], quiet_hours: [\"22:00-08:00\"]}", "a: compare knows no quiet_hours"},
		{"a={rate: 1/1s, rates: [1/1s]}", "a: rate excludes rates"},
		{"a={rates: [1/1s], brust: 2}", "a: unknown field \"brust\""},
		{"a={rate: 1/1s, rate: 2/1s}", "a: "},
		{"a={rate: 1/1s, algorithm: gcra}", "a: algorithm \"gcra\": want one of [rolling token_bucket"},
		{"a={rates: [1/1s, 2/1m], algorithm: token_bucket}", "a: rates: there are 2"},
		{"a={rates: [1/1s, 2/1m], algorithm: weighted_window}", "a: weighted_window has one rate"},
		{"a={rate: 1/1s, min_gap: 1s}", "a: min_gap: token_bucket has none"},
		{"a={rate: 1/1s, min_gap: 1s, algorithm: weighted_window}", "a: min_gap: weighted_window has none"},
		{"a={min_gap: -1s}", "a: min_gap -1s: want 0"},
		{"a={rates: [1/1s], cells: 5}", "a: rolling has rates alone"},
		{"a={rates: [1/1s], promise: true}", "a: rolling has rates alone"},
		{"a={rate: 1/1s, burst: -1, algorithm: published_bucket}", "a: burst -1"},
		{"a={rate: 1/1s, cells: 1000, algorithm: published_window}", "a: cells: 1000"},
	} {
		if got, err := Parse([]string{c.text}); err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %+v, %v, want %s", c.text, got, err, c.want)
		}
	}
	if _, err := Parse([]string{"a={rate: 1/1s}", "a={rate: 2/1s}"}); err == nil || err.Error() != "a is there twice" {
		t.Error(err)
	}
	if _, err := Parse(slices.Repeat([]string{"a={rate: 1/1s}"}, 21)); err == nil || !strings.Contains(err.Error(), "at most 20") {
		t.Error(err)
	}
}

// All algorithms are compared by default, each of which is valid.
func TestDefault(t *testing.T) {
	t.Parallel()
	all := Default()
	if len(all) != len(Algorithms)+1 || all[0].Name != "rolling" || all[1].Name != "quota" {
		t.Errorf("%+v", all)
	}
	for _, c := range all {
		if err := c.spec.validate(); err != nil || !names.MatchString(c.Name) {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}
