package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/operatetest"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// If several users have an ID, a request for it changes nothing, and its answer lists the choices
// among the principal's apps. Parameters or the body choose.
func TestAmbiguousIDListsOwners(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	r := newRigOn(t, client, func(o *rigOptions) {
		operatetest.Divide(&o.Options, 8)
		operatetest.TwoApps(&o.Options)
		o.HTTP.Tokens = append(o.HTTP.Tokens, testToken("own", config.Operator, "own-token", "shop"))
	})
	all := []problems.Choice{{App: "secret-app", User: "ada"}, {App: "shop", User: "ada"}, {App: "shop", User: "ben"}} // each in another shard
	taken := map[int]bool{}
	for i := range all {
		for taken[shard.Of(8, all[i].App, all[i].User)] {
			all[i].User += "x"
		}
		taken[shard.Of(8, all[i].App, all[i].User)] = true
	}
	// answer repeats the request until its status is want: on a busy machine a shard may
	// answer too late.
	answer := func(want int, token, method, path, body string) (text string) {
		t.Helper()
		eventually.Holds(t, fmt.Sprint(method, " ", path, " is answered by ", want), func() bool {
			recorder := r.serve(request(token, method, path, body))
			text = recorder.Body.String()
			return recorder.Code == want
		})
		return text
	}
	for _, c := range []struct {
		letter                    bool
		method, path, many, state string
		done                      int // the status of a request that chooses
	}{
		{false, "GET", "/v1/notifications/%s", "", "", http.StatusOK},
		{false, "DELETE", "/v1/notifications/%s", "/v1/cancellations", "cancelled", http.StatusOK},
		{true, "GET", "/v1/dead-letters/%s", "", "", http.StatusOK},
		{true, "POST", "/v1/dead-letters/%s/requeue", "/v1/requeues", "waiting", http.StatusAccepted},
		{true, "DELETE", "/v1/dead-letters/%s", "/v1/purges", "rejected", http.StatusNoContent},
	} {
		id := strings.ToLower(c.method) + fmt.Sprint(c.letter)
		for _, of := range all {
			n := &push.Notification{ID: id, App: of.App, User: of.User, Title: "t", Targets: []push.Target{{Platform: push.APNs, Token: "00fc"}}}
			_, err := r.options.Producer.Enqueue(t.Context(), n)
			must(t, err)
			if c.letter {
				at, err := r.options.Records.Of(t.Context(), n.App, n.User)
				must(t, err)
				r.buryAt(at, n)
			}
		}
		path := fmt.Sprintf(c.path, id)
		for from, token := range []string{operatorToken, "own-token"} {
			eventually.Holds(t, fmt.Sprintf("%s %s leaves the choice to %s", c.method, path, token), func() bool {
				var p problem
				return json.Unmarshal([]byte(answer(http.StatusConflict, token, c.method, path, "")), &p) == nil && slices.Equal(p.Choices, all[from:])
			})
		}
		query := func(of problems.Choice) string { return "?" + url.Values{"app": {of.App}, "user": {of.User}}.Encode() }
		answer(http.StatusForbidden, "own-token", c.method, path+query(all[0]), "")
		answer(http.StatusNotFound, operatorToken, c.method, path+"?app=shop&user=nobody", "")
		if c.method == "GET" {
			answer(c.done, operatorToken, c.method, path+query(all[1]), "")
			continue
		}
		results := func(want operate.Outcome, refs ...push.Ref) {
			t.Helper()
			body, err := json.Marshal(map[string]any{"ids": refs})
			must(t, err)
			var got struct{ Results []done }
			must(t, json.Unmarshal([]byte(answer(http.StatusOK, operatorToken, "POST", c.many, string(body))), &got))
			if len(got.Results) != 1 || got.Results[0].Outcome != want || want == operate.Ambiguous && !slices.Equal(got.Results[0].Choices, all) {
				t.Errorf("%s %v: %+v, want %s", c.many, refs, got, want)
			}
		}
		results(operate.Ambiguous, push.Ref{ID: id})
		answer(http.StatusForbidden, "own-token", "POST", c.many, `{"ids":[{"id":"`+id+`","app":"secret-app"}]}`)
		results(operate.Done, push.Ref{ID: id, App: "secret-app", User: all[0].User})
		answer(c.done, "own-token", c.method, path+query(all[1]), "")
		// the notification of the third user has not changed
		was := map[bool]string{false: "waiting", true: "rejected"}[c.letter]
		for i, want := range []string{c.state, c.state, was} {
			if text := answer(http.StatusOK, operatorToken, "GET", "/v1/notifications/"+id+query(all[i]), ""); !strings.Contains(text, `"state":"`+want+`"`) {
				t.Errorf("%s %v: %s, want %s", c.many, all[i], text, want)
			}
		}
	}
}
