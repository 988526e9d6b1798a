package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
)

// needy are requests that need Redis.
var needy = []struct{ token, method, path, body string }{
	{producerToken, "POST", "/v1/notifications", notification("one", "ada")},
	{producerToken, "POST", "/v1/notifications", "[" + notification("two", "ada") + "," + notification("three", "ada") + "]"},
	{producerToken, "GET", "/v1/notifications/one", ""},
	{producerToken, "DELETE", "/v1/notifications/one", ""},
	{ratedToken, "GET", "/v1/notifications/one", ""},
	{operatorToken, "GET", "/v1/dead-letters", ""},
	{operatorToken, "GET", "/v1/dead-letters/one", ""},
	{operatorToken, "POST", "/v1/dead-letters/one/requeue", ""},
	{operatorToken, "DELETE", "/v1/dead-letters/one", ""},
	{operatorToken, "GET", "/v1/audit", ""},
	{operatorToken, "GET", "/v1/actions", ""},
	{operatorToken, "GET", "/v1/overview", ""},
	{operatorToken, "GET", "/v1/throughput?range=24h", ""},
	{operatorToken, "GET", "/v1/overrides", ""},
	{operatorToken, "GET", "/v1/overrides/log", ""},
	{operatorToken, "GET", "/v1/limits?user=ada", ""},
	{operatorToken, "PUT", "/v1/overrides?user=ada", `{"min_gap":"1s"}`},
	{operatorToken, "DELETE", "/v1/overrides?user=ada", ""},
	{operatorToken, "GET", "/v1/users/ada/timeline?app=demo", ""},
	{operatorToken, "GET", "/v1/pauses", ""},
	{operatorToken, "PUT", "/v1/pauses?all=true", "{}"},
	{operatorToken, "DELETE", "/v1/pauses?all=true", ""},
}

// While Redis is killed, or accepts connections and never answers, every request gets 503 in
// time. When Redis is back, it has all accepted notifications.
func TestRequestWithoutRedisGets503(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*redistest.Server, testing.TB){"killed": (*redistest.Server).Kill, "hanging": (*redistest.Server).Pause} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.AppendOnly())
			options := server.Options()
			options.ContextTimeoutEnabled, options.MaxRetries, options.DialerRetries = true, 1, 1
			const timeout = 150 * time.Millisecond
			options.ReadTimeout, options.WriteTimeout, options.PoolTimeout, options.DialTimeout = timeout, timeout, timeout, timeout
			client := redis.NewClient(options)
			t.Cleanup(func() { _ = client.Close() })
			r := newRigOn(t, client, demo)
			r.taken("zero")
			leave(server, t)
			for _, c := range needy {
				r.logged()
				answer := r.do(http.StatusServiceUnavailable, c.token, c.method, c.path, c.body)
				p := answer.problem(t)
				if answer.Header.Get("Retry-After") != "1" {
					t.Errorf("%s %s: %v", c.method, c.path, answer.Header)
				}
				if strings.HasPrefix(c.body, `{"id"`) && p.ID != "one" {
					t.Errorf("%s", answer.text)
				}
				if strings.HasPrefix(c.body, "[") && (len(p.Results) != 2 || p.Results[1].ID != "three" || p.Results[1].Status != http.StatusServiceUnavailable || p.Results[1].Detail != p.Detail) {
					t.Errorf("%s", answer.text)
				}
				lines := r.logged()
				var line struct{ Cause string }
				if len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &line) != nil || line.Cause == "" || strings.Contains(lines[0], "ada\"") && c.token == producerToken {
					t.Errorf("%s %s: logged %q", c.method, c.path, lines)
				}
			}
			for path, id := range map[string]string{"/v1/cancellations": "zero", "/v1/requeues": "letter"} {
				answer := into[struct{ Results []done }](r.do(http.StatusOK, operatorToken, "POST", path, `{"ids":["`+id+`"]}`))
				if one := answer.Results[0]; one.Outcome != operate.Failed || !strings.HasPrefix(one.Detail, "Redis does not answer") {
					t.Errorf("%s: %+v", path, one)
				}
			}
			if name == "killed" {
				server.Restart(t)
			} else {
				server.Resume(t)
			}
			for _, id := range []string{"one", "two", "three"} {
				r.taken(id)
			}
			counts, err := store.NewRecords(server.Client(t), "", 0).Counts(t.Context())
			if err != nil || counts.Accepted != 4 {
				t.Errorf("%+v, %v", counts, err)
			}
		})
	}
}

// taken posts the notification until it is accepted: with such short time-outs, Redis may
// seem unreachable on a busy machine.
func (r *rig) taken(id string) {
	r.t.Helper()
	eventually.Holds(r.t, id+" is taken", func() bool {
		status := r.try(notification(id, "ada"))
		return status == http.StatusAccepted || status == http.StatusOK
	})
}

// try posts a notification and returns the status.
func (r *rig) try(body string) int {
	return r.serve(request(producerToken, "POST", "/v1/notifications", body)).Code
}
