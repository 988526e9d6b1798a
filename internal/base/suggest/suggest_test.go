package suggest

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	t.Parallel()
	names := []string{"shop", "orders", "marketing", "security", "ü"}
	for mistyped, want := range map[string]string{
		"shpo": "shop", "shop": "shop", "Shop": "shop", "shops": "shop", "hop": "shop", "odrers": "orders", "markting": "marketing",
		"Marketing": "marketing", "secutiry": "security", "a": "",
		"mail": "", "ordering": "", "": "", strings.Repeat("shop", 100): "",
	} {
		if got := Name(mistyped, names); got != want {
			t.Errorf("%q: %q, want %q", mistyped, got, want)
		}
	}
	if got := Hint("shpo", names); got != "; did you mean shop?" {
		t.Errorf("%q", got)
	}
	if got := Hint("shpo", nil); got != "" {
		t.Errorf("%q", got)
	}
}
