package words

import (
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/throttle/limits"
)

func TestPreviewOfSomeUsersSaysSo(t *testing.T) {
	t.Parallel()
	part := &operate.Preview{Users: operate.Looked{At: 112, Of: 10_000}, Notifications: operate.Looked{At: 112, Of: 112}, Sooner: 112, AtOnce: 112, MostBefore: 33, MostAfter: 112}
	whole := *part
	whole.Users.Of = 112
	for want, p := range map[string]*operate.Preview{
		"112 of 112 looked at would leave sooner, 112 of them at once; none later. 112 of 10,000 users looked at. Of these alone, 112 would leave in one second; now it is 33. With the others it may be many more.": part,
		"112 of 112 that wait would leave sooner, 112 of them at once; none later. 112 of 112 users looked at. At most 112 would leave in one second; now it is 33.":                                                 &whole,
		"Nobody waits for these limits. 3 of 3 users looked at.":                                                                         {Users: operate.Looked{At: 3, Of: 3}},
		"It is not known what would happen: of those looked at, nobody waits for these limits. 0 of 3 and perhaps more users looked at.": {Users: operate.Looked{Of: 3, More: true}},
		"None of the 2 that wait would leave sooner or later. At most 1 would leave in one second; now it is 1.":                         {Level: limits.Level{User: "ada"}, Notifications: operate.Looked{At: 2, Of: 2}, MostBefore: 1, MostAfter: 1},
	} {
		if got := strings.Join(Preview(p), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
