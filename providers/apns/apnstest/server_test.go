package apnstest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func bearer(t testing.TB, key *ecdsa.PrivateKey, keyID, teamID string, issued time.Time) string {
	t.Helper()
	claims := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"iss": teamID, "iat": issued.Unix()})
	claims.Header["kid"] = keyID
	signed, err := claims.SignedString(key)
	must(t, err)
	return signed
}

func TestServerRefusesLikeAPNs(t *testing.T) {
	t.Parallel()
	s, err := NewServer(Options{Topics: []string{Topic}})
	must(t, err)
	providertest.Closing(t, s)
	c := providertest.Client(t, s.CA())
	now := time.Now()
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	auth := func(key *ecdsa.PrivateKey, keyID, teamID string, issued time.Time) func(*http.Request) {
		return set("authorization", "bearer "+bearer(t, key, keyID, teamID, issued))
	}
	key := s.identity.key
	for _, row := range []struct {
		name   string
		change func(*http.Request)
		body   int
		status int
		reason providers.Reason
	}{
		{"accepted", nil, 100, 200, ""},
		{"method", func(r *http.Request) { r.Method = http.MethodPut }, 100, 405, apns.MethodNotAllowed},
		{"path", func(r *http.Request) { r.URL.Path = "/3/devices/aa" }, 100, 404, apns.BadPath},
		{"no token", func(r *http.Request) { r.URL.Path = "/3/device/" }, 100, 400, apns.MissingDeviceToken},
		{"bad token", func(r *http.Request) { r.URL.Path = "/3/device/xyz" }, 100, 400, apns.BadDeviceToken},
		{"no authorization", func(r *http.Request) { r.Header.Del("authorization") }, 100, 403, apns.MissingProviderToken},
		{"empty bearer", set("authorization", "bearer "), 100, 403, apns.MissingProviderToken},
		{"nonsense bearer", set("authorization", "bearer a.b.c"), 100, 403, apns.InvalidProviderToken},
		{"other key", auth(other, KeyID, TeamID, now), 100, 403, apns.InvalidProviderToken},
		{"other key ID", auth(key, "OTHERKEY01", TeamID, now), 100, 403, apns.InvalidProviderToken},
		{"other team", auth(key, KeyID, "OTHERTEAM1", now), 100, 403, apns.InvalidProviderToken},
		{"old bearer", auth(key, KeyID, TeamID, now.Add(-61*time.Minute)), 100, 403, apns.ExpiredProviderToken},
		{"bearer from the future", auth(key, KeyID, TeamID, now.Add(time.Hour)), 100, 403, apns.InvalidProviderToken},
		{"no topic", func(r *http.Request) { r.Header.Del("apns-topic") }, 100, 400, apns.MissingTopic},
		{"bad topic", set("apns-topic", "com example"), 100, 400, apns.BadTopic},
		{"topic without suffix", set("apns-push-type", "voip"), 100, 400, apns.BadTopic},
		{"other topic", set("apns-topic", "com.example.other"), 100, 400, apns.TopicDisallowed},
		{"push type", set("apns-push-type", "shout"), 100, 400, apns.InvalidPushType},
		{"apns-id", set("apns-id", "123E4567-e89b-12d3-a456-426655440000"), 100, 400, apns.BadMessageID},
		{"collapse ID", set("apns-collapse-id", strings.Repeat("x", 65)), 100, 400, apns.BadCollapseID},
		{"priority", set("apns-priority", "7"), 100, 400, apns.BadPriority},
		{"background priority", set("apns-push-type", "background"), 100, 400, apns.BadPriority},
		{"expiration", set("apns-expiration", "soon"), 100, 400, apns.BadExpirationDate},
		{"duplicate header", func(r *http.Request) { r.Header["Apns-Priority"] = []string{"10", "5"} }, 100, 400, apns.DuplicateHeaders},
		{"no body", nil, 0, 400, apns.PayloadEmpty},
		{"largest body", nil, 4096, 200, ""},
		{"body too large", nil, 4097, 413, apns.PayloadTooLarge},
		{"largest VoIP body", func(r *http.Request) {
			r.Header.Set("apns-push-type", "voip")
			r.Header.Set("apns-topic", Topic+".voip")
		}, 5120, 200, ""},
	} {
		r, err := http.NewRequest(http.MethodPost, s.URL()+"/3/device/00aa", bytes.NewReader(make([]byte, row.body)))
		must(t, err)
		const id = "123e4567-e89b-12d3-a456-426655440000"
		auth(key, KeyID, TeamID, now)(r)
		r.Header.Set("apns-topic", Topic)
		r.Header.Set("apns-push-type", "alert")
		r.Header.Set("apns-id", id)
		if row.change != nil {
			row.change(r)
		}
		before := s.Ledger().Len()
		response, err := c.Do(r)
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		var body struct{ Reason providers.Reason }
		if row.status != 200 {
			err = json.NewDecoder(response.Body).Decode(&body)
		}
		_ = response.Body.Close()
		if err != nil || response.StatusCode != row.status || body.Reason != row.reason {
			t.Errorf("%s: %d %q, %v; want %d %q", row.name, response.StatusCode, body.Reason, err, row.status, row.reason)
		}
		if got := response.Header.Get("apns-id"); got != r.Header.Get("apns-id") {
			t.Errorf("%s: apns-id %q", row.name, got)
		}
		if accepted := s.Ledger().Len() > before; accepted != (row.status == 200) {
			t.Errorf("%s: accepted %v", row.name, accepted)
		}
	}
}

func TestFrequentTokenUpdateIsRefused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	for _, c := range []struct {
		name     string
		sameConn bool
		age      time.Duration // of the first token; the second is new
		want     providers.Reason
	}{
		{"same connection", true, 5 * time.Minute, apns.TooManyProviderTokenUpdates},
		{"after 20 minutes", true, 20 * time.Minute, ""},
		{"other connection", false, 5 * time.Minute, ""},
	} {
		checker := &tokenChecker{keys: map[string]*ecdsa.PublicKey{KeyID: &key.PublicKey}}
		var first, second updates
		conn := &second
		if c.sameConn {
			conn = &first
		}
		older := bearer(t, key, KeyID, TeamID, now.Add(-c.age))
		if reason := checker.check(older, &first, now); reason != "" {
			t.Errorf("%s: %s", c.name, reason)
		}
		if reason := checker.check(bearer(t, key, KeyID, TeamID, now), conn, now); reason != c.want {
			t.Errorf("%s: %q, want %q", c.name, reason, c.want)
		}
		// Pushes with the older token may still be in flight.
		if reason := checker.check(older, &first, now); reason != "" {
			t.Errorf("%s: the older one: %s", c.name, reason)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
