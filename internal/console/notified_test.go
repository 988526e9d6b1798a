package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pushpace/pushpace/internal/access"
	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/ledger/ledgertest"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/queue"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// secret is the token of everything that tests notify of; its last six letters may be
// seen.
const secret = "5ec2e70000000000000000000000000000000000000000000000000000a1b2c3"

// toUser returns a notification with that ID.
func toUser(id, user, category string) *push.Notification {
	return &push.Notification{
		ID: id, App: "shop", User: user, Category: category, Title: "Hello", Data: map[string]string{"order": "10000000000000001"},
		Targets: []push.Target{{Platform: push.APNs, Token: secret}},
	}
}

// enqueue hands notifications over.
func (r *rig) enqueue(all ...*push.Notification) {
	r.t.Helper()
	for _, result := range r.producer.EnqueueAll(r.t.Context(), all) {
		must(r.t, result.Err)
	}
}

// visitLimits has the limiter asked for each, as a worker does, and those that it denies
// put off until their slots.
func (r *rig) visitLimits(all ...*push.Notification) {
	r.t.Helper()
	ctx := r.t.Context()
	r.enqueue(all...)
	for _, n := range all {
		scopes := r.setting.Work.Limits.Scopes(n.App, n.User, n.Category)
		d, err := r.limiter.Acquire(ctx, throttle.Request{App: n.App, User: n.User, ID: n.ID, Category: n.Category, Scopes: scopes, Horizon: 100 * time.Hour})
		must(r.t, err)
		if d.Status == throttle.Granted {
			continue
		}
		until := time.Now().Add(d.Left)
		_, err = ledgertest.At(r.t, r.setting.Work.Records, n.ID).Defer(ctx, n.ID, until, d.Scope, d.Rule)
		must(r.t, err)
		r.returned(n.ID, queue.Deferred, until)
	}
}

// returned has a job that is due return to the queue, as asynq does it.
func (r *rig) returned(id string, why queue.Why, until time.Time) {
	r.t.Helper()
	ctx := r.t.Context()
	name := push.Default.Queue()
	task := asynqwire.QueueKey(name, "t:"+id)
	message, err := r.client.HGet(ctx, task, "msg").Bytes()
	must(r.t, err)
	const errorField = 7
	message = protowire.AppendTag(message, errorField, protowire.BytesType)
	message = protowire.AppendString(message, (&queue.Return{Why: why, After: time.Until(until)}).Error())
	pipe := r.client.TxPipeline()
	pipe.HSet(ctx, task, "msg", message, "state", "retry")
	pipe.LRem(ctx, asynqwire.QueueKey(name, "pending"), 1, id)
	pipe.ZAdd(ctx, asynqwire.QueueKey(name, "retry"), redis.Z{Score: float64(until.Unix()), Member: id})
	_, err = pipe.Exec(ctx)
	must(r.t, err)
}

// bury has a notification end as a dead letter.
func (r *rig) bury(n *push.Notification, reason string, at time.Time) {
	r.t.Helper()
	ctx := r.t.Context()
	r.enqueue(n)
	name := push.Default.Queue()
	job, err := push.Encode(&push.Job{Notification: n, AcceptedAt: at})
	must(r.t, err)
	pipe := r.client.TxPipeline()
	pipe.LRem(ctx, asynqwire.QueueKey(name, "pending"), 1, n.ID)
	pipe.Del(ctx, asynqwire.QueueKey(name, "t:"+n.ID))
	_, err = pipe.Exec(ctx)
	must(r.t, err)
	_, err = ledgertest.At(r.t, r.setting.Work.Records, n.ID).Settle(ctx, n.ID, &ledger.End{State: push.Rejected, Error: "it is " + reason, Letter: &ledger.Letter{
		ID: n.ID, State: push.Rejected, Reason: reason, Error: "it is " + reason, At: at, Queue: name, Job: job, Outcomes: push.Unsent(n.Targets),
	}})
	must(r.t, err)
}

// state returns where a notification is.
func (r *rig) state(id string) push.State {
	r.t.Helper()
	record, _, err := r.setting.Work.Records.Lookup(r.t.Context(), push.Ref{ID: id})
	must(r.t, err)
	return record.State
}

// states expects so many notifications in each state.
func (r *rig) states(want map[push.State]int64) {
	r.t.Helper()
	counts, err := r.setting.Work.Records.Counts(r.t.Context())
	must(r.t, err)
	got := map[push.State]int64{push.Waiting: counts.Waiting()}
	for state, n := range counts.Ended {
		got[state] = n
	}
	for state, n := range got {
		if n != want[state] {
			r.t.Errorf("%d are %s, want %d", n, state, want[state])
		}
	}
}

// line enqueues so many for one user: the first is let through, and the others wait.
func (r *rig) line(user string, n int) (ids []string) {
	r.t.Helper()
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s-%d", user, i))
		r.visitLimits(toUser(ids[i], user, "news"))
	}
	return ids
}

// ofApps makes a request as a bearer of these apps alone, and returns its status, and its
// text or where it leads.
func (r *rig) ofApps(apps []string, method, path string, form url.Values) (int, string) {
	r.t.Helper()
	mux := http.NewServeMux()
	for _, route := range routes {
		if route.handle == nil {
			continue
		}
		mux.HandleFunc(route.method+" "+route.path, func(w http.ResponseWriter, req *http.Request) {
			v, err := r.console.visit(req, route)
			v.who = access.Bearer{Name: "some", Role: config.Operator, Apps: apps}
			v.as = r.service.As(v.who, req.RemoteAddr)
			var p page
			if err == nil {
				p, err = route.handle(r.console, req.Context(), v)
			}
			if err == nil && p.to != "" {
				http.Redirect(w, req, p.to, http.StatusSeeOther)
				return
			}
			if err == nil {
				err = r.console.render(w, v, p)
			}
			if err != nil {
				r.console.fail(w, v, err)
			}
		})
	}
	req := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Host = "localhost"
	recorder := httptest.NewRecorder()
	mux.ServeHTTP(recorder, req)
	return recorder.Code, recorder.Header().Get("Location") + recorder.Body.String()
}
