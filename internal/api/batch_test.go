package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/push"
)

func TestBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	post := func(want int, items ...string) []result {
		t.Helper()
		answer := r.do(want, producerToken, "POST", "/v1/notifications:batch", "["+strings.Join(items, ",\n ")+"]")
		if want >= 400 {
			return answer.problem(t).Results
		}
		var got batch
		answer.into(t, &got)
		return got.Results
	}
	statuses := func(results []result) string {
		var b strings.Builder
		for _, one := range results {
			fmt.Fprintf(&b, "%s %d;", one.ID, one.Status)
		}
		return b.String()
	}
	bad := `{"id":"bad","app":"demo","user":"","targets":[]}`
	later := strings.Replace(notification("later", "ada"), `"title"`, `"not_before":"2126-01-01T00:00:00Z","title"`, 1)
	got := post(http.StatusAccepted, notification("a", "ada"), bad, notification("b", "ada"), notification("a", "ada"), later, "7")
	if want := "a 202; 400;b 202;a 200;later 202; 400;"; statuses(got) != want {
		t.Errorf("%s, want %s", statuses(got), want)
	}
	var pointers []string
	for _, one := range got {
		for _, f := range one.Errors {
			pointers = append(pointers, f.Pointer)
		}
	}
	if want := []string{"/1/user", "/1/targets", "/5"}; !slices.Equal(pointers, want) {
		t.Errorf("pointers %q, want %q", pointers, want)
	}
	if got := statuses(post(http.StatusOK, notification("a", "ada"), bad, later)); got != "a 200; 400;later 200;" {
		t.Error(got)
	}
	if got := statuses(post(http.StatusBadRequest, bad, bad)); got != " 400; 400;" {
		t.Error(got)
	}
	taken, laterTaken := notification("a", "ben"), strings.Replace(later, `"ada"`, `"ben"`, 1)
	if got := statuses(post(http.StatusOK, taken, notification("b", "ada"), laterTaken)); got != "a 409;b 200;later 409;" {
		t.Error(got)
	}
	if got := statuses(post(http.StatusConflict, taken, laterTaken)); got != "a 409;later 409;" {
		t.Error(got)
	}
	if got := statuses(post(http.StatusBadRequest, taken, bad)); got != "a 409; 400;" {
		t.Error(got)
	}
	for _, one := range post(http.StatusAccepted, notification("", "ada"), notification("", "ben")) {
		if one.Status != http.StatusAccepted || len(one.ID) != 36 {
			t.Errorf("%+v", one)
		}
	}
	if counts := r.counts(); counts.Accepted != 5 || counts.Waiting() != 5 {
		t.Errorf("%+v", counts)
	}
}

// A thousand come in one request, and are queued in its order.
func TestLargeBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var items, want []string
	for i := range maxBatch {
		id := fmt.Sprintf("n-%04d", i)
		items, want = append(items, notification(id, "ada")), append(want, id)
	}
	var got batch
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", "["+strings.Join(items, ",")+"]").into(t, &got)
	for i, one := range got.Results {
		if one.ID != want[i] || one.Status != http.StatusAccepted {
			t.Fatalf("%+v", one)
		}
	}
	queued, err := r.client.LRange(t.Context(), "asynq:{"+push.Default.Queue()+"}:pending", 0, -1).Result()
	slices.Reverse(queued) // the next to be pulled is the list's last
	if err != nil || !slices.Equal(queued, want) {
		t.Errorf("%d queued, %v; not in the order of the request", len(queued), err)
	}
}

// An array is taken where one notification is, and answered as a batch is; one
// alone is no batch.
func TestBatchHasTwoPlaces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, path := range []string{"/v1/notifications", "/v1/notifications:batch"} {
		var got batch
		r.do(http.StatusAccepted, producerToken, "POST", path, "["+notification(path, "ada")+"]").into(t, &got)
		if len(got.Results) != 1 || got.Results[0].ID != path || got.Results[0].Status != http.StatusAccepted {
			t.Errorf("%s: %+v", path, got)
		}
	}
	p := r.do(http.StatusBadRequest, producerToken, "POST", "/v1/notifications:batch", notification("one", "ada")).problem(t)
	if len(p.Errors) != 1 || p.Errors[0].Detail != "must be an array" {
		t.Errorf("%+v", p)
	}
	r.do(http.StatusUnauthorized, "", "POST", "/v1/notifications:batch", "[]")
	r.do(http.StatusForbidden, viewerToken, "POST", "/v1/notifications:batch", "[]")
}
