package operate

import (
	"strings"
	"testing"
)

func TestAPartIsToldAsAPart(t *testing.T) {
	t.Parallel()
	part := &Preview{Users: Looked{At: 112, Of: 10_000}, Notifications: Looked{At: 112, Of: 112}, Sooner: 112, AtOnce: 112, MostBefore: 33, MostAfter: 112}
	if says, peak := part.Says(), part.Peak(); says != "112 of 112 looked at would leave sooner, 112 of them at once; none later." || strings.Contains(peak, "At most") || !strings.Contains(peak, "Of these alone, 112") {
		t.Errorf("%s %s", says, peak)
	}
	whole := *part
	whole.Users.Of = 112
	if says, peak := whole.Says(), whole.Peak(); says != "112 of 112 that wait would leave sooner, 112 of them at once; none later." || peak != "At most 112 would leave in one second; now it is 33." {
		t.Errorf("%s %s", says, peak)
	}
	for want, p := range map[string]*Preview{
		"Nobody waits for these limits.": {Users: Looked{At: 3, Of: 3}},
		"It is not known what would happen: of those looked at, nobody waits for these limits.": {Users: Looked{Of: 3, More: true}},
		"None of the 2 looked at would leave sooner or later.":                                  {Users: Looked{At: 1, Of: 1}, Notifications: Looked{At: 2, Of: 3}},
	} {
		if got := p.Says(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
