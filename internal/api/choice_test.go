package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// Where several users have an ID, what concerns it is answered with whose to choose from, of
// the apps that the bearer sees, and the parameters choose.
func TestChoiceOfAnID(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	redistest.Divide(t, client, "pushpace", "8")
	r := scopedRigOn(t, client)
	all := apart()
	for _, kind := range []string{"waits", "dead", "shared", "shared-dead"} {
		for _, c := range all {
			if c == all[2] && (kind == "shared" || kind == "shared-dead") {
				continue // one of each app
			}
			n := push.Notification{ID: kind, App: c.App, User: c.User, Title: "t", Targets: []push.Target{{Platform: push.APNs, Token: "00fc"}}}
			text, err := json.Marshal(&n)
			must(t, err)
			r.do(http.StatusAccepted, operatorToken, "POST", "/v1/notifications", string(text))
			if kind == "dead" || kind == "shared-dead" {
				r.buryAt(&n)
			}
		}
	}
	of := func(c choice) string { return "?" + url.Values{"app": {c.App}, "user": {c.User}}.Encode() }
	for _, c := range []struct {
		method, path string
		done         int // the answer to one who chooses
	}{
		{"GET", "/v1/notifications/waits", http.StatusOK},
		{"DELETE", "/v1/notifications/waits", http.StatusOK},
		{"GET", "/v1/dead-letters/dead", http.StatusOK},
		{"POST", "/v1/dead-letters/dead/requeue", http.StatusAccepted},
	} {
		if got := r.choices(operatorToken, c.method, c.path); !slices.Equal(got, all) {
			t.Errorf("%s %s: %+v", c.method, c.path, got)
		}
		if got := r.choices(shopOperator, c.method, c.path); !slices.Equal(got, all[1:]) {
			t.Errorf("%s %s, of the shop: %+v", c.method, c.path, got)
		}
		if got := r.choices(operatorToken, c.method, c.path+"?app=shop"); !slices.Equal(got, all[1:]) {
			t.Errorf("%s %s, narrowed: %+v", c.method, c.path, got)
		}
		r.do(http.StatusForbidden, shopOperator, c.method, c.path+of(all[0]), "")
		r.do(http.StatusNotFound, operatorToken, c.method, c.path+"?app=shop&user=nobody", "")
		r.do(c.done, operatorToken, c.method, c.path+of(all[1]), "")
		r.do(c.done, shopOperator, c.method, c.path+of(all[2]), "")
	}
	for path, done := range map[string]int{"/v1/notifications/shared": http.StatusOK, "/v1/dead-letters/shared-dead": http.StatusNoContent} {
		r.do(http.StatusConflict, operatorToken, "DELETE", path, "")
		r.do(done, shopOperator, "DELETE", path, "") // to whom there is one
	}
	r.do(http.StatusOK, operatorToken, "GET", "/v1/dead-letters/shared-dead", "") // the other's
	for i, want := range []push.State{push.Waiting, push.Cancelled, push.Cancelled} {
		at, err := r.options.Control.Status(t.Context(), push.Ref{ID: "waits", App: all[i].App, User: all[i].User})
		if err != nil || at.State != want {
			t.Errorf("%+v: %+v, %v", all[i], at, err)
		}
	}
	if _, _, err := r.options.Records.Letter(t.Context(), push.Ref{ID: "shared-dead", App: "shop"}, push.Contents, nil); !errors.Is(err, ledger.ErrNoLetter) {
		t.Error(err)
	}
}

// What several are asked for at once is exact where the body says whose each is. Of an ID
// alone that several users have nothing is done, and it is told whose to choose from.
func TestChoiceOfSeveralIDs(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	redistest.Divide(t, client, "pushpace", "8")
	r := scopedRigOn(t, client)
	all := apart()
	for _, c := range []struct {
		path   string
		letter bool
	}{{"/v1/cancellations", false}, {"/v1/requeues", true}, {"/v1/purges", true}} {
		id := strings.TrimPrefix(c.path, "/v1/")
		for _, of := range all {
			n := push.Notification{ID: id, App: of.App, User: of.User, Title: "t", Targets: []push.Target{{Platform: push.APNs, Token: "00fc"}}}
			text, err := json.Marshal(&n)
			must(t, err)
			r.do(http.StatusAccepted, operatorToken, "POST", "/v1/notifications", string(text))
			if c.letter {
				r.buryAt(&n)
			}
		}
		list := func() (left []push.Ref) {
			var waiting struct{ Waiting []control.Queued }
			var letters operate.LetterPage
			r.do(http.StatusOK, operatorToken, "GET", "/v1/waiting", "").into(t, &waiting)
			r.do(http.StatusOK, operatorToken, "GET", "/v1/dead-letters", "").into(t, &letters)
			for _, q := range waiting.Waiting {
				if !c.letter && q.ID == id {
					left = append(left, q.Ref())
				}
			}
			for _, l := range letters.Letters {
				if c.letter && l.ID == id {
					left = append(left, l.Ref())
				}
			}
			slices.SortFunc(left, func(a, b push.Ref) int { return strings.Compare(a.App+a.User, b.App+b.User) })
			return left
		}
		act := func(token string, refs ...push.Ref) (results []done) {
			body, err := json.Marshal(map[string]any{"ids": refs})
			must(t, err)
			var answer struct{ Results []done }
			r.do(http.StatusOK, token, "POST", c.path, string(body)).into(t, &answer)
			return answer.Results
		}
		listed := list()
		if len(listed) != 3 {
			t.Fatalf("%s: %+v", c.path, listed)
		}
		var alone struct{ Results []done }
		r.do(http.StatusOK, operatorToken, "POST", c.path, `{"ids":["`+id+`"]}`).into(t, &alone)
		for i, results := range [][]done{alone.Results, act(operatorToken, push.Ref{ID: id}), act(operatorToken, push.Ref{ID: id, App: "shop"}), act(shopOperator, push.Ref{ID: id})} {
			if want := all[min(1, max(0, i-1)):]; len(results) != 1 || results[0].Outcome != operate.Ambiguous || !slices.Equal(results[0].Choices, want) {
				t.Errorf("%s: %d: %+v, want %+v", c.path, i, results, want)
			}
		}
		r.do(http.StatusForbidden, shopOperator, "POST", c.path, `{"ids":[{"id":"`+id+`","app":"secret-app"}]}`)
		if got := list(); !slices.Equal(got, listed) {
			t.Errorf("%s: something is done: %+v", c.path, got)
		}
		results := act(operatorToken, listed[2], push.Ref{ID: id, App: "shop", User: "nobody"}, listed[0])
		if len(results) != 3 || results[0].Ref != listed[2] || results[0].Outcome != operate.Done || results[1].Outcome != operate.Unknown || results[2].Ref != listed[0] || results[2].Outcome != operate.Done {
			t.Errorf("%s: %+v", c.path, results)
		}
		if got := list(); !slices.Equal(got, listed[1:2]) {
			t.Errorf("%s: %+v are left, want %+v", c.path, got, listed[1])
		}
		for body, pointer := range map[string]string{
			`{"ids":[{}]}`: "/ids/0/id", `{"ids":["a",{"id":5}]}`: "/ids/1/id", `{"ids":[5]}`: "/ids/0", `{"ids":[null]}`: "/ids/0", `{"ids":[["a"]]}`: "/ids/0",
			`{"ids":[{"id":"a","usr":"u"}]}`: "/ids/0/usr", `{"ids":[{"id":"a","app":"shop","app":"mail"}]}`: "/ids/0/app",
		} {
			if text := r.do(http.StatusBadRequest, operatorToken, "POST", c.path, body).text; !strings.Contains(text, `"pointer":"`+pointer+`"`) {
				t.Errorf("%s: %s", body, text)
			}
		}
	}
}

// apart are users of two apps, each in another one of 8 shards.
func apart() []choice {
	all := []choice{{"secret-app", "ada"}, {"shop", "ada"}, {"shop", "ben"}}
	taken := map[int]bool{} // shards
	for i := range all {
		for all[i].User += "-"; taken[shard.Of(8, all[i].App, all[i].User)]; {
			all[i].User += "x"
		}
		taken[shard.Of(8, all[i].App, all[i].User)] = true
	}
	return all
}

// choices are those of the problem that the request is answered with.
func (r *rig) choices(token, method, path string) []choice {
	r.t.Helper()
	var p problem
	must(r.t, json.Unmarshal([]byte(r.do(http.StatusConflict, token, method, path, "").text), &p))
	return p.Choices
}

// buryAt ends a notification with a dead letter.
func (r *rig) buryAt(n *push.Notification) {
	r.t.Helper()
	at, err := r.options.Records.Of(r.t.Context(), n.App, n.User)
	must(r.t, err)
	job, err := push.Encode(&push.Job{Notification: n, AcceptedAt: time.Now()})
	must(r.t, err)
	letter := &ledger.Letter{ID: n.ID, State: push.Rejected, Reason: "test", Attempts: 1, At: time.Now(), Queue: push.Default.Queue(), Job: job}
	_, err = at.Settle(r.t.Context(), n.ID, &ledger.End{State: push.Rejected, Letter: letter})
	must(r.t, err)
}
