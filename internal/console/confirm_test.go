package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
)

// What is asked leads to a form that holds what the first one held, and what was
// counted.
func TestConfirm(t *testing.T) {
	t.Parallel()
	v := &visit{Request: httptest.NewRequest(http.MethodPost, "/console/waiting", nil), form: url.Values{"id": {"b", "a"}, "until": {"2h"}, "expect": {"7"}}}
	p := confirm(v, "Cancel", confirmation{Expect: 2, Fields: []field{{"until", "2026-12-24T20:00:00Z"}}, Facts: texts("App", "shop", "User", "")})
	c := p.data.(confirmation)
	want := []field{{"confirmed", "yes"}, {"expect", "2"}, {"id", "b"}, {"id", "a"}, {"until", "2026-12-24T20:00:00Z"}}
	if !slices.Equal(c.Fields, want) || len(c.Facts) != 1 || c.Changed || v.confirmed() {
		t.Errorf("%+v", c)
	}
	if more := confirm(&visit{}, "Pause", confirmation{Expect: 1}).data.(confirmation).Fields; !slices.EqualFunc(more, confirmFields, func(f field, name string) bool { return f.Name == name }) {
		t.Errorf("%v are not what routes take", more)
	}
	for _, again := range []struct {
		expect string
		n      int
		right  bool
	}{{"2", 2, true}, {"2", 3, false}, {"", 0, false}, {"02", 2, false}} {
		v.form = url.Values{"confirmed": {"yes"}, "expect": {again.expect}}
		if got := v.expects(again.n); got != again.right {
			t.Errorf("%q for %d: %t", again.expect, again.n, got)
		}
	}
	if c := confirm(v, "Cancel", confirmation{Expect: 3}).data.(confirmation); !c.Changed {
		t.Error("nothing says that another number was confirmed")
	}
}
