package roles

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Each shard is led, by few workers, and one more stands by where there are two that could.
func TestRolesOf(t *testing.T) {
	t.Parallel()
	for shards := 1; shards <= 64; shards *= 2 {
		for n := 1; n <= 70; n++ {
			var alive []string
			for i := range n {
				alive = append(alive, fmt.Sprintf("w-%03d", i))
			}
			leads, by := make([]int, shards), make([]int, shards)
			for _, id := range slices.Backward(alive) {
				own := 0
				for shard, role := range rolesOf(id, alive, shards) {
					switch role {
					case Leads:
						own++
						leads[shard]++
					case StandsBy:
						by[shard]++
					}
				}
				if own == 0 || own > (shards+n-1)/n+1 {
					t.Errorf("of %d workers one leads %d of %d shards", n, own, shards)
				}
			}
			for shard := range shards {
				if least := leads[shard]; least == 0 || least > (n+shards-1)/shards+1 || least < n && by[shard] != 1 {
					t.Errorf("shard %d of %d with %d workers: %d lead it, %d stand by", shard, shards, n, least, by[shard])
				}
			}
		}
	}
	for _, c := range []struct{ id, alive, want string }{
		{"a", "a", "LLLLLLLL"}, {"a", "", "LLLLLLLL"}, {"b", "c a", "HHHHHHHH"},
		{"b", "b a", "SSSSLLLL"}, {"a", "c b a", "LLLHHSSS"}, {"b", "a b c", "SSLLLLHH"}, {"c", "a b c", "HHSSSLLL"},
	} {
		got := ""
		for _, role := range rolesOf(c.id, strings.Fields(c.alive), 8) {
			got += map[Role]string{Leads: "L", StandsBy: "S", Helps: "H"}[role]
		}
		if got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.id, c.alive, got, c.want)
		}
	}
}

// While nobody knows who is alive, a worker leads all.
func TestRolesAreAdvice(t *testing.T) {
	t.Parallel()
	r := new(Roles)
	all := func() (all []Role) { return []Role{r.Of(0), r.Of(1), r.Of(2), r.Of(3)} }
	leads := []Role{Leads, Leads, Leads, Leads}
	if got := all(); !slices.Equal(got, leads) {
		t.Errorf("at first %v", got)
	}
	r.Take("a", []string{"a", "b"}, 4)
	if got := all(); !slices.Equal(got, []Role{Leads, Leads, StandsBy, StandsBy}) {
		t.Errorf("with another %v", got)
	}
	if r.Forget(); !slices.Equal(all(), leads) {
		t.Errorf("when nobody knows %v", all())
	}
}

// One that helps takes one turn of eight at what the others do each time.
func TestRests(t *testing.T) {
	t.Parallel()
	for role, want := range map[Role]int{Leads: 16, StandsBy: 16, Helps: 2} {
		got := 0
		for n := range int64(16) {
			if !role.Rests(n + 1) {
				got++
			}
		}
		if got != want {
			t.Errorf("%d takes %d turns of 16, want %d", role, got, want)
		}
	}
}
