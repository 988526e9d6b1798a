package worker_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/webhook"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

var webhookKey = []byte("0123456789abcdef01234567")

// verify checks a request's signature of Standard Webhooks.
func verify(body []byte, header http.Header) error {
	verifier, err := standardwebhooks.NewWebhookRaw(webhookKey)
	if err != nil {
		return err
	}
	return verifier.Verify(body, header)
}

// A report is the body of a request of either webhook.
type report struct {
	DeadTokens []store.DeadToken    `json:"dead_tokens"`
	Outcomes   []store.OutcomeEvent `json:"outcomes"`
}

// A receiver is a producer's webhook.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	answers []int  // the next answers; then 204
	got     report // what it has acknowledged
}

// hangs in receiver.answers stands for no answer.
const hangs = 0

func newReceiver(t *testing.T, answers ...int) *receiver {
	r := &receiver{answers: answers}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err == nil {
			err = verify(body, request.Header)
		}
		var posted report
		if err == nil {
			err = json.Unmarshal(body, &posted)
		}
		if err != nil || request.Method != http.MethodPost {
			t.Errorf("%s %s: %v", request.Method, body, err)
		}
		if status, ok := r.next(posted); ok {
			if status == hangs {
				<-request.Context().Done()
				return
			}
			if status/100 == 3 {
				w.Header().Set("Location", "/elsewhere")
			}
			w.WriteHeader(status)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

// next returns the status of the next answer. If no answer is left, it acknowledges the reports.
func (r *receiver) next(posted report) (status int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) == 0 {
		r.got.DeadTokens, r.got.Outcomes = append(r.got.DeadTokens, posted.DeadTokens...), append(r.got.Outcomes, posted.Outcomes...)
		return 0, false
	}
	status, r.answers = r.answers[0], r.answers[1:]
	return status, true
}

// tokens returns the acknowledged dead tokens without duplicates: after a late acknowledgement a token is
// posted again.
func (r *receiver) tokens() []store.DeadToken {
	r.mu.Lock()
	defer r.mu.Unlock()
	var once []store.DeadToken
	for _, d := range r.got.DeadTokens {
		if !slices.Contains(once, d) {
			once = append(once, d)
		}
	}
	return once
}

// outcomes returns the acknowledged ends by the notification's ID.
func (r *receiver) outcomes() map[string]store.OutcomeEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]store.OutcomeEvent{}
	for _, e := range r.got.Outcomes {
		all[e.ID] = e
	}
	return all
}

// pending returns the number of dead tokens that the app's webhook has not acknowledged.
func (r *rig) pending(app string) int64 {
	r.t.Helper()
	groups, err := r.client.XInfoGroups(r.t.Context(), shardKey(r.client, "dead-tokens:"+app)).Result()
	must(r.t, err)
	for _, g := range groups {
		if g.Name == "webhook:"+app {
			return g.Pending
		}
	}
	return -1
}

// A dead FID is reported as a FID. Logs and records contain only the last characters of FIDs and tokens.
func TestDeadTokensReachWebhook(t *testing.T) {
	const fid = "deaddead1tRk2bX0mYw9sL"
	r := newRig(t, oneRedis(t), unlimited)
	log := r.logs()
	r.options.Hasten(0, 0, 20*time.Millisecond)
	// more failures than one delivery retries, and a request without an answer
	hook := newReceiver(t, 500, 302, 404, hangs, 500, 500)
	r.options.Webhooks = map[string]webhook.Hook{"shop": {URL: hook.URL + "/secret-path", Keys: [][]byte{webhookKey}, Timeout: time.Second}}
	r.start()
	dead := push.Target{Platform: push.APNs, Token: deadToken}
	r.enqueue(to("half", dead, google))
	elsewhere := to("elsewhere", dead)
	elsewhere.App = "apple"
	r.enqueue(elsewhere)
	r.enqueue(to("fid", toFID(fid)))
	counts := r.settled(3)
	if counts.DeadTokens != 3 {
		t.Errorf("counts %+v", counts)
	}
	wait(t, func() bool { return len(hook.tokens()) > 1 })
	wait(t, func() bool { return r.pending("shop") == 0 })
	got := hook.tokens()
	if len(got) != 2 {
		t.Fatalf("the webhook has got %+v, want its own app's once", got)
	}
	slices.SortFunc(got, func(a, b store.DeadToken) int { return strings.Compare(a.Notification, b.Notification) })
	if d := got[0]; d.Notification != "fid" || d.FID != fid || d.Token != "" || d.Platform != push.FCM || d.Reason != "UNREGISTERED" {
		t.Errorf("the webhook has got %+v", d)
	}
	if o := r.record("fid").Outcomes; len(o) != 1 || o[0].FIDEnd != fid[len(fid)-6:] || o[0].TokenEnd != "" || o[0].Platform != push.FCM {
		t.Errorf("outcomes %+v", o)
	}
	d := got[1]
	if d.App != "shop" || d.User != "u1" || d.Platform != push.APNs || d.Token != deadToken || d.Reason != "Unregistered" ||
		d.Notification != "half" || d.Since.IsZero() || !d.Since.Before(d.At) || !d.At.Equal(d.At.Truncate(time.Millisecond)) || time.Since(d.At) > time.Minute || d.Entry == "" {
		t.Errorf("the webhook has got %+v", d)
	}
	for _, secret := range []string{"secret-path", string(webhookKey), deadToken, fid} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log shows %s: %s", secret, log.String())
		}
	}
	// one message for each change of the status, with the cause, and one for the end; a stalled machine may
	// turn one answer into none
	causes := regexp.MustCompile(`the webhook (answered \d+, not 2xx|cannot be reached)`).FindAllString(log.String(), -1)
	if n := len(causes); n < 3 || n != len(slices.Compact(causes)) || n != strings.Count(log.String(), "a webhook fails") || strings.Count(log.String(), "the webhook works again") != 1 {
		t.Errorf("the log says %s", log.String())
	}
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	if posted := r.seen.posted[webhook.DeadTokens]; posted[false] < 6 || posted[true] == 0 {
		t.Errorf("posted %v", posted)
	}
}

// A report that a dead deliverer has claimed is posted by another deliverer.
func TestReportOfDeadDelivererIsPosted(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	r.options.Hasten(0, 0, 20*time.Millisecond)
	tokens := store.NewDeadTokens(store.NewRecords(client, "", 0), 0)
	must(t, tokens.Add(t.Context(), store.DeadToken{App: "shop", Token: "taken"}))
	taken, err := tokens.Next(t.Context(), "shop", "webhook:shop", time.Hour, 10)
	must(t, err)
	if len(taken) != 1 {
		t.Fatalf("taken %+v", taken)
	}
	hook := newReceiver(t)
	r.options.Webhooks = map[string]webhook.Hook{"shop": {URL: hook.URL, Keys: [][]byte{webhookKey}, Timeout: 100 * time.Millisecond}}
	r.start()
	r.start()
	must(t, tokens.Add(t.Context(), store.DeadToken{App: "shop", Token: "new"}))
	delivered := func() (names []string) { // a stalled deliverer's reports may be taken over and posted twice
		for _, d := range hook.tokens() {
			names = append(names, d.Token)
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	wait(t, func() bool { return len(delivered()) == 2 })
	wait(t, func() bool { return r.pending("shop") == 0 })
	if names := delivered(); !slices.Equal(names, []string{"new", "taken"}) {
		t.Errorf("delivered %v", names)
	}
}
