package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
)

// A notification is accepted once, whatever characters its ID has. An ID that a different
// notification has is refused.
func TestRepeatedNotificationIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		body  string
		want  int
		id    string
		known bool
	}{
		{notification("order-1", "ada"), http.StatusAccepted, "order-1", false},
		{notification("order-1", "ada"), http.StatusOK, "order-1", true},
		{notification("a/b c?d#%", "ada"), http.StatusAccepted, "a/b c?d#%", false},
		{`{"id":"full","app":"demo","user":"ü","category":"orders","priority":"bulk","targets":[{"platform":"apns","token":"Ab"},{"platform":"fcm","token":"t:1"}],
			"title":"a","subtitle":"b","body":"c","badge":0,"sound":"default","image":"https://example.com/a.png","thread":"d","channel":"e",
			"data":{"k":"v","K":"w"},"push_type":"alert","collapse_key":"f","ttl":"1d2h","apns":{"aps":{"category":"x"}},"fcm":{"android":{"ttl":"3s"}}}`,
			http.StatusAccepted, "full", false},
	} {
		answer := r.do(c.want, producerToken, "POST", "/v1/notifications", c.body)
		if got := into[accepted](answer); got.ID != c.id || got.Known != c.known {
			t.Errorf("%s: %s", c.body, answer.text)
		}
	}
	if p := r.do(http.StatusConflict, producerToken, "POST", "/v1/notifications", notification("order-1", "ben")).problem(t); !strings.Contains(p.Detail, "another user") {
		t.Errorf("an ID of another user: %+v", p)
	}
	r.log.lines()
	if generated := into[accepted](r.do(http.StatusAccepted, operatorToken, "POST", "/v1/notifications", notification("", "ada"))); len(generated.ID) != 36 {
		t.Errorf("the ID %q was generated", generated.ID)
	}
	if counts := r.counts(); counts.Accepted != 4 || counts.Waiting() != 4 {
		t.Errorf("%+v", counts)
	}
	if lines := r.log.lines(); len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
}

// Each notification of a batch has its own result, on both paths, and the batch has a status.
func TestBatchHasAResultPerNotification(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bad := `{"id":"bad","app":"demo","user":"","targets":[]}`
	later := strings.Replace(notification("later", "ada"), `"title"`, `"not_before":"2126-01-01T00:00:00Z","title"`, 1)
	taken := notification("a", "ben")
	for i, c := range []struct {
		want     int
		items    []string
		statuses string
	}{
		{http.StatusAccepted, []string{notification("a", "ada"), bad, notification("b", "ada"), notification("a", "ada"), later, "7"}, "a 202; 400;b 202;a 200;later 202; 400;"},
		{http.StatusOK, []string{notification("a", "ada"), bad, later}, "a 200; 400;later 200;"},
		{http.StatusBadRequest, []string{bad, bad}, " 400; 400;"},
		{http.StatusOK, []string{taken, notification("b", "ada")}, "a 409;b 200;"},
		{http.StatusConflict, []string{taken, strings.Replace(later, `"ada"`, `"ben"`, 1)}, "a 409;later 409;"},
		{http.StatusBadRequest, []string{taken, bad}, "a 409; 400;"},
	} {
		path := []string{"/v1/notifications", "/v1/notifications:batch"}[i%2]
		answer := r.do(c.want, producerToken, "POST", path, "["+strings.Join(c.items, ",\n ")+"]")
		var got batch
		if c.want >= 400 {
			got.Results = answer.problem(t).Results
		} else {
			got = into[batch](answer)
		}
		statuses, pointers := "", []string(nil)
		for _, one := range got.Results {
			statuses += fmt.Sprintf("%s %d;", one.ID, one.Status)
			for _, f := range one.Errors {
				pointers = append(pointers, f.Pointer)
			}
		}
		if want := []string{"/1/user", "/1/targets", "/5"}; statuses != c.statuses || i == 0 && !slices.Equal(pointers, want) {
			t.Errorf("%s, want %s: %q", statuses, c.statuses, pointers)
		}
	}
	if p := r.do(http.StatusBadRequest, producerToken, "POST", "/v1/notifications:batch", taken).problem(t); p.Errors[0].Detail != "must be an array" {
		t.Errorf("%+v", p)
	}
}

// The header Idempotency-Key is the ID of a notification that has none, quoted or bare.
func TestIdempotencyKeyBecomesID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	post := func(want int, path, body string, keys ...string) *exchange {
		req := request(producerToken, "POST", path, body)
		req.Header[idempotencyHeader] = keys
		return r.send(want, req, body)
	}
	const path = "/v1/notifications"
	for _, c := range []struct {
		key, id, body string
		want          int
	}{
		{"bare", "bare", notification("", "ada"), http.StatusAccepted},
		{`"bare"`, "bare", notification("", "ada"), http.StatusOK},
		{`"bare"`, "", notification("", "ben"), http.StatusConflict},
		{`"a \"b\" \\ c"`, `a "b" \ c`, notification("", "ada"), http.StatusAccepted},
		{`a"b\c`, `a"b\c`, notification("", "ada"), http.StatusAccepted},
	} {
		answer := post(c.want, path, c.body, c.key)
		var got accepted
		if c.want < 400 {
			got = into[accepted](answer)
		}
		if got.ID != c.id || got.Known != (c.want == http.StatusOK) {
			t.Errorf("%s: %s", c.key, answer.text)
		}
	}
	for _, keys := range [][]string{{""}, {`" "`}, {strings.Repeat("k", 129)}, {"a", "a"}, {`"a`}, {`"a"b"`}, {`"a\n"`}, {`"a\"`}, {"ö"}, {`"a";b=1`}} {
		if p := post(http.StatusBadRequest, path, notification("", "ada"), keys...).problem(t); p.Detail != errBadKey.Detail {
			t.Errorf("%q: %+v", keys, p)
		}
	}
	if p := post(http.StatusBadRequest, path, notification("another", "ada"), "bare").problem(t); len(p.Errors) != 1 || p.Errors[0] != (problems.Fault{Pointer: "/id", Detail: "differs from the header Idempotency-Key"}) {
		t.Errorf("%+v", p)
	}
	if p := post(http.StatusBadRequest, path, "["+notification("", "ada")+"]", "one").problem(t); p.Detail != errKeyOfMany.Detail {
		t.Errorf("%+v", p)
	}
}

func TestStatusAndCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const path = "/v1/notifications/a%2Fb%20c%3Fd%2E%2E"
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("a/b c?d..", "ada"))
	var status inspect.Status
	for _, token := range []string{producerToken, viewerToken, operatorToken} {
		status = into[inspect.Status](r.do(http.StatusOK, token, "GET", path, ""))
		if status.ID != "a/b c?d.." || status.State != push.Waiting || status.Job != "pending" || time.Since(status.Accepted) > time.Minute {
			t.Errorf("%+v", status)
		}
	}
	if got := r.do(http.StatusOK, viewerToken, "HEAD", path, ""); got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("HEAD: %v", got.Header)
	}
	r.do(http.StatusForbidden, viewerToken, "DELETE", path, "")
	status = into[inspect.Status](r.do(http.StatusOK, producerToken, "DELETE", path, ""))
	if status.State != push.Cancelled || status.Job != "" {
		t.Errorf("%+v", status)
	}
	r.do(http.StatusConflict, producerToken, "DELETE", path, "")
	for _, unknown := range []string{"none", "%00", strings.Repeat("x", 129)} {
		r.do(http.StatusNotFound, producerToken, "GET", "/v1/notifications/"+unknown, "")
		r.do(http.StatusNotFound, producerToken, "DELETE", "/v1/notifications/"+unknown, "")
	}
	if counts := r.counts(); counts.Accepted != 1 || counts.Ended[push.Cancelled] != 1 {
		t.Errorf("%+v", counts)
	}
	if left, err := r.client.Keys(t.Context(), shard.QueueKey("*", "*")).Result(); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// A digest's carrier is cancelled only with the number of the others in its digest; a member's status names the carrier.
func TestCarrierIsCancelledOnlyWithDigest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := storetest.At(r.t, r.options.Records, "one")
	join := func(id string) {
		t.Helper()
		r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", strings.Replace(notification(id, "ada"), "{", `{"digest":{"key":"k"},`, 1))
		joiner := &store.Joiner{App: "shop", User: "ada", Key: "k", Job: &store.Job{ID: id, Queue: push.Default.Queue()}, JSON: []byte("{}"), Most: 100}
		must(t, second(at.Digest(t.Context(), store.WaitInDigest, joiner)))
	}
	join("one")
	join("two")
	p := r.do(http.StatusConflict, producerToken, "DELETE", "/v1/notifications/one", "").problem(t)
	if p.Carries != 1 || !strings.Contains(p.Detail, "carries 1 other") {
		t.Errorf("%+v", p)
	}
	status := into[inspect.Status](r.do(http.StatusOK, viewerToken, "GET", "/v1/notifications/two", ""))
	if status.State != push.Digested || status.Into != "one" {
		t.Errorf("%+v", status)
	}
	for _, text := range []string{"no", "true", "0", "-1", "1.5"} {
		r.do(http.StatusBadRequest, producerToken, "DELETE", "/v1/notifications/one?digest="+text, "")
	}
	join("three") // between the refusal and the confirmation
	if p := r.do(http.StatusConflict, operatorToken, "DELETE", "/v1/notifications/one?digest=1", "").problem(t); p.Carries != 2 {
		t.Errorf("another has joined: %+v", p)
	}
	status = into[inspect.Status](r.do(http.StatusOK, operatorToken, "DELETE", "/v1/notifications/one?digest=2", ""))
	if status.State != push.Cancelled || status.Carried != 2 {
		t.Errorf("%+v", status)
	}
	if all := r.actions(""); len(all) != 1 || all[0].Count != 3 {
		t.Errorf("3 have ended: %+v", all)
	}
	join("four")
	join("five")
	r.do(http.StatusOK, operatorToken, "POST", "/v1/cancellations", `{"ids":["four"]}`)
	if all := r.actions(""); len(all) != 2 || all[0].Count != 2 {
		t.Errorf("2 more have ended: %+v", all)
	}
}

func TestWithdraw(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []string{"one", "two", "other"} {
		thread := map[bool]string{true: "another", false: "chat 17"}[id == "other"]
		r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", strings.Replace(notification(id, "ada"), "{", `{"thread":"`+thread+`",`, 1))
	}
	const path = "/v1/notifications?app=demo&user=ada"
	for query, want := range map[string]string{
		path: "exactly one of", path + "&thread=": "exactly one of", path + "&thread=a&category=b": "exactly one of",
		path + "&digest=true": "nothing else", path + "&thread=a&thread=b": "given once",
		path + "&thread=a&cursor=%00%F0":                  "must be the value of next in an earlier answer",
		path + "&collapse_key=" + strings.Repeat("a", 65): "collapse_key must be a name: it must be UTF-8", path + "&digest_key=%00": "digest_key must be a name: it must be UTF-8",
		"/v1/notifications?user=ada&thread=a": "app must be given", "/v1/notifications?app=demo&thread=a": "user must be given",
		"/v1/notifications?app=demo&user=&thread=a": "user must be given", "/v1/notifications?app=demo&user=%FF&thread=a": "user must be a name: it must be UTF-8",
	} {
		if p := r.do(http.StatusBadRequest, producerToken, "DELETE", query, "").problem(t); !strings.Contains(p.Detail, want) {
			t.Errorf("%s: %q, want %q", query, p.Detail, want)
		}
	}
	r.do(http.StatusForbidden, viewerToken, "DELETE", path+"&thread=chat+17", "")
	r.log.lines()
	for _, want := range []string{`{"ended":2,"carried":0,"in_flight":0}`, `{"ended":0,"carried":0,"in_flight":0}`} {
		if got := strings.TrimSpace(r.do(http.StatusOK, producerToken, "DELETE", path+"&thread=chat+17", "").text); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if lines := r.log.lines(); len(lines) != 1 || !strings.Contains(lines[0], `"by":"shop","remote":"192.0.2.1:1234"`) {
		t.Errorf("logged %q", lines)
	}
	if counts := r.counts(); counts.Accepted != 3 || counts.Ended[push.Cancelled] != 2 {
		t.Errorf("%+v", counts)
	}
}
