package push

import (
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
)

// APNs gets the collapse key in a header, which can contain only printable ASCII without spaces at its
// ends. Jobs of an older producer may also have other keys.
func TestCollapseIDFitsInHeader(t *testing.T) {
	t.Parallel()
	for key, asItIs := range map[string]bool{
		"order-4711": true, "a b": true, "~!": true, strings.Repeat("k", 64): true, "": true,
		"k ": false, " k": false, "ключ": false, "é": false, "日本語": false, "👩\u200d💻": false, "a\u00a0b": false, "a\tb": false, "a\x00": false, "a\r\nb: c": false, strings.Repeat("k", 65): false,
	} {
		n := sample()
		n.CollapseKey = key
		m, err := n.RenderAPNs(n.Targets[0])
		must(t, err)
		if (m.CollapseID == key) != asItIs || len(m.CollapseID) > MaxCollapseKeyBytes || !httpguts.ValidHeaderFieldValue(m.CollapseID) || strings.TrimSpace(m.CollapseID) != m.CollapseID || !isPrintable(m.CollapseID, ' ') {
			t.Errorf("%q becomes %q", key, m.CollapseID)
		}
		if again, _ := n.RenderAPNs(n.Targets[0]); again.CollapseID != m.CollapseID {
			t.Errorf("%q becomes %q, and then %q", key, m.CollapseID, again.CollapseID)
		}
		if !asItIs && m.CollapseID != n.hashedCollapseKey() {
			t.Errorf("%q: APNs gets %q, a browser %q", key, m.CollapseID, n.hashedCollapseKey())
		}
	}
	n := sample()
	for key, taken := range map[string]bool{"ключ": true, "日本語": true, "k ": false} {
		n.CollapseKey = key
		if err := n.Validate(); (err == nil) != taken {
			t.Errorf("%q: %v", key, err)
		}
	}
}
