package throttle

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
)

var plainName = regexp.MustCompile(`^([A-Za-z0-9._~@+-]|%[0-9A-F]{2})*$`)

// FuzzEscape checks that unescaping returns the name, so that no two names have the same escape.
func FuzzEscape(f *testing.F) {
	for _, name := range []string{"", "user-1@example.com", "a/b", "{x}", "%41", "é", "\x00\xff", "日本"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		escaped := Escape(name)
		if !plainName.MatchString(escaped) {
			t.Fatalf("Escape(%q) = %q", name, escaped)
		}
		if back, err := url.PathUnescape(escaped); err != nil || back != name {
			t.Fatalf("Escape(%q) = %q, which reads %q, %v", name, escaped, back, err)
		}
	})
}

// FuzzMember checks that no two IDs have the same member, and that memberID restores a UUID.
func FuzzMember(f *testing.F) {
	f.Add("a", "")
	f.Add("0190a5f2-7c3e-7d21-9f3b-2a1d0c4e5f60", "~AZCl8nw-fSGfOyodDE5fYA")
	f.Add("#", strings.Repeat("#", 23))
	f.Add("0190a5f2-7c3e-7d21-9f3b-2a1d0c4e5f60", "0190A5F2-7C3E-7D21-9F3B-2A1D0C4E5F60")
	f.Add("0190a5f2-7c3e-7d21-9f3b-2a1d0c4e5f60", "0190a5f27c3e7d219f3b2a1d0c4e5f60")
	f.Add("0190a5f2-7c3e-7d21-9f3b-2a1d0c4e5f60", "#AZCl8nw-fSGfOyodDE5fYA")
	f.Add(strings.Repeat("x", longestMember), strings.Repeat("x", longestMember+1))
	f.Fuzz(func(t *testing.T, a, b string) {
		if (member(a) == member(b)) != (a == b) {
			t.Fatalf("%q and %q have the members %q and %q", a, b, member(a), member(b))
		}
		if back := memberID(member(a)); back != a && back != member(a) {
			t.Fatalf("the member of %q reads %q", a, back)
		}
		if id, err := uuid.Parse(a); err == nil && id.String() == a && memberID(member(a)) != a {
			t.Fatalf("the UUID %s reads %q", a, memberID(member(a)))
		}
	})
}
