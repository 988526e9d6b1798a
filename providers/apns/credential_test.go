package apns

import (
	"testing"
	"time"

	"github.com/sideshow/apns2/token"
)

func TestRefreshToken(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		name    string
		bearer  string
		age     time.Duration
		wait    time.Duration
		renewed bool
	}{
		{"old", "b1", 40 * time.Minute, 0, true},
		{"at the floor", "b1", 20 * time.Minute, 0, true},
		{"too young", "b1", 5 * time.Minute, 15 * time.Minute, false},
		{"from the future", "b1", -time.Hour, 20 * time.Minute, false},
		{"renewed meanwhile", "b0", time.Minute, 0, false},
	} {
		tok := &token.Token{Bearer: "b1", IssuedAt: now.Add(-c.age).Unix()}
		if wait := refreshToken(tok, c.bearer, now); wait != c.wait {
			t.Errorf("%s: wait %v, want %v", c.name, wait, c.wait)
		}
		if renewed := tok.IssuedAt == 0; renewed != c.renewed {
			t.Errorf("%s: renewed %v", c.name, renewed)
		}
	}
}
