package words

import (
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// A reason is explained as docs/reasons.md has it, without Markdown.
func TestReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state     push.State
		reason    string
		means, do string
	}{
		{push.Rejected, "invalid", "cannot be rendered", "send --dry-run shows"},
		{store.Malformed, "invalid", "is not valid", "see its error"},
		{push.Rejected, "MissingTopic", "not for this topic", "check topic"},
		{push.Exhausted, "QUOTA_EXCEEDED", "has had its quota", "ask for more quota"},
		{push.Rejected, "away", "", ""},
	} {
		means, do := Reason(c.state, c.reason)
		if !strings.Contains(means, c.means) || !strings.Contains(do, c.do) || (c.means == "") != (means == "") || strings.ContainsAny(means+do, "`[]|") {
			t.Errorf("%s, %s: %q, %q", c.state, c.reason, means, do)
		}
	}
	if all := Reasons(); len(all) < 50 || !slices.Contains(all, "not_json") || slices.Contains(all, "away") {
		t.Errorf("%q", all)
	}
}
