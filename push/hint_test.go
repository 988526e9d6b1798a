package push

import (
	"strings"
	"testing"
)

func TestHint(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]string{"": "", "123456": "", "1234567": "234567", strings.Repeat("a", 58) + "00fcab": "00fcab"} {
		if got := (Target{Platform: APNs, Token: token}).Hint(); got != want {
			t.Errorf("%s: %s", token, got)
		}
	}
}
