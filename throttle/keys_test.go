package throttle

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
)

var plainName = regexp.MustCompile(`^([A-Za-z0-9._~@+-]|%[0-9A-F]{2})*$`)

// FuzzEscape checks that a name can be read back from its escape, so that no
// two have the same.
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

// TestKeysAreApart checks that different apps, users and categories have
// different keys, all under the user's hash tag.
func TestKeysAreApart(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "a/b", "a:b", "a}", "{a", "sent", "slots", "lines", "sent:a", "%2F", "é"}
	owners := map[string]string{}
	for _, app := range append(names, "") {
		for _, user := range names {
			tag := ""
			for _, category := range append(names, "") {
				r := Request{App: app, User: user, Scopes: []Scope{{General, Policy{}}}}
				if category != "" {
					r.Scopes = append(r.Scopes, Scope{category, Policy{}})
				}
				k := userKeys("p", &r)
				own := map[string]string{k.sent: "", k.slots: "", k.early(): "", k.lines(): ""}
				for _, key := range []string{k.catSent} {
					own[key] = "of " + category
				}
				for key, category := range own {
					owner := fmt.Sprintf("%q %q %q", app, user, category)
					if other, taken := owners[key]; taken && other != owner {
						t.Fatalf("%s and %s share the key %s", owner, other, key)
					}
					owners[key] = owner
					open, end := strings.IndexByte(key, '{'), strings.IndexByte(key, '}')
					if tag == "" {
						tag = key[open : end+1]
					}
					if key[open:end+1] != tag || tag == "{}" {
						t.Fatalf("the key %s of %s is not under %s", key, owner, tag)
					}
				}
			}
		}
	}
}

// FuzzMember checks that no two IDs have the same member, and that a UUID reads
// back.
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
