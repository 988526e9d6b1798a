package words

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/base/golden"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// docs/reasons.md has exactly the words of the program.
func TestReasonsPage(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# States, causes and reasons\n\nThe commands, the API, the console, the log and the metrics use these words and no others. `internal/words/reasons.go` holds this page's text.\n")
	for _, set := range ReasonSets {
		fmt.Fprintf(&b, "\n## %s\n\n", set.Title)
		if set.Above != "" {
			b.WriteString(set.Above + "\n\n")
		}
		fmt.Fprintf(&b, "| %s | Means | What to do |\n|---|---|---|\n", set.Head)
		for _, row := range set.Rows {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.Join(strings.Fields(row.Words), "`, `"), row.Means, row.Do)
		}
		if set.Below != "" {
			b.WriteString("\n" + set.Below + "\n")
		}
	}
	golden.Match(t, "../../docs/reasons.md", b.String())
}

// A reason is explained without Markdown.
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
		{push.Exhausted, "QUOTA_EXCEEDED", "has used its quota", "ask for more quota"},
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
