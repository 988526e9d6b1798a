//go:build unix

package words

import (
	"os/exec"
	"testing"
)

func TestNamesAreQuotedOnlyIfNeeded(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"": "-", "-": `'-'`, "order-4711": "order-4711", "shop/ada:1": "shop/ada:1", "jörg": "jörg", "a b": `'a b'`, "a\tb": `"a\tb"`,
		"a\u202eb": `"a\u202eb"`, `a"b`: `'a"b'`, "a;b": `'a;b'`, "a\x7fb": `"a\x7fb"`, "a\xffb": `"a\xffb"`,
		"$(id)": `'$(id)'`, "`id`": "'`id`'", "hi!": `'hi!'`, "it's": `'it'\''s'`, `a\b`: `'a\b'`,
	} {
		if got := Quoted(name); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
		if want[0] == '"' || name == "" {
			continue
		}
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+Quoted(name)).Output(); err != nil || string(out) != name {
			t.Errorf("a shell reads %s as %q, %v", want, out, err)
		}
	}
}
