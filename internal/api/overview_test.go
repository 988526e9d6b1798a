package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

func TestOverview(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("one", "ada"))
	r.bury("gone")
	var o operate.Overview
	r.do(http.StatusOK, viewerToken, "GET", "/v1/overview", "").into(t, &o)
	if o.Waiting != 1 || len(o.Waits) != 1 || o.Waits[0].For != control.ForWorker || o.Letters.Reasons["payload"] != 1 || len(o.Redis) != 1 || o.Redis[0].Version == "" {
		t.Errorf("%+v", o)
	}
	r.do(http.StatusForbidden, producerToken, "GET", "/v1/overview", "")
	var all struct{ Workers []control.Snapshot }
	r.do(http.StatusOK, viewerToken, "GET", "/v1/workers", "").into(t, &all)
	if len(all.Workers) != 0 {
		t.Errorf("%+v", all)
	}
}

// What was done is told in buckets, also by workers that have ended.
func TestThroughput(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := time.Now()
	minutes := []control.Minute{{At: now.Add(-2 * time.Hour), Sent: 7}, {At: now, Sent: 3, Ended: map[push.State]int64{push.Delivered: 2, push.Rejected: 1}}}
	if err := control.AddMinutes(t.Context(), r.client, "", minutes); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string][2]int64{"": {15, 3}, "?range=15m": {15, 3}, "?range=1h": {60, 3}, "?range=24h": {96, 10}} {
		var got operate.Throughput
		r.do(http.StatusOK, viewerToken, "GET", "/v1/throughput"+query, "").into(t, &got)
		sent := int64(0)
		for _, b := range got.Buckets {
			sent += b.Sent
		}
		if int64(len(got.Buckets)) != want[0] || sent != want[1] {
			t.Errorf("%s: %d buckets, %d sent", query, len(got.Buckets), sent)
		}
	}
	r.do(http.StatusBadRequest, viewerToken, "GET", "/v1/throughput?range=7d", "")
	r.do(http.StatusForbidden, producerToken, "GET", "/v1/throughput", "")
}

func TestWaitingIsListedAndCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *rigOptions) { o.Apps = operate.Apps{"demo": both} })
	ids := ""
	for i := range 3 {
		id := fmt.Sprintf("n-%d", i)
		r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification(id, "ada"))
		ids += `"` + id + `",`
	}
	var page struct {
		Waiting []control.Queued
		Next    string
	}
	r.do(http.StatusOK, viewerToken, "GET", "/v1/waiting?category=orders&user=ada", "").into(t, &page)
	if len(page.Waiting) != 3 || page.Next != "" {
		t.Errorf("%+v", page)
	}
	r.do(http.StatusBadRequest, viewerToken, "GET", "/v1/waiting?app=shp", "")
	r.do(http.StatusBadRequest, viewerToken, "GET", "/v1/waiting?catgory=orders", "")
	r.do(http.StatusBadRequest, viewerToken, "GET", "/v1/waiting?app=a&app=b", "")
	r.do(http.StatusBadRequest, viewerToken, "GET", "/v1/waiting?cursor=x", "")
	r.do(http.StatusForbidden, producerToken, "GET", "/v1/waiting", "")

	body := `{"ids":[` + ids + `"nobody"]}`
	for _, path := range []string{"/v1/cancellations", "/v1/requeues", "/v1/purges"} {
		r.do(http.StatusForbidden, viewerToken, "POST", path, body)
		r.do(http.StatusBadRequest, operatorToken, "POST", path, `{"ids":[]}`)
		r.do(http.StatusBadRequest, operatorToken, "POST", path, `{"ids":[`+strings.Repeat(`"a",`, operate.MostIDs)+`"a"]}`)
		if text := r.do(http.StatusBadRequest, operatorToken, "POST", path, `{"ids":["a","`+strings.Repeat("b", maxLetterID+1)+`"]}`).text; !strings.Contains(text, `"/ids/1"`) || len(text) > 1000 {
			t.Errorf("%s", text)
		}
	}
	r.do(http.StatusBadRequest, operatorToken, "POST", "/v1/cancellations", `{"ids":["a\u0000b"]}`)
	r.do(http.StatusOK, operatorToken, "POST", "/v1/requeues", `{"ids":["a\u0000b"]}`)     // of a job that somebody else has put there
	for _, want := range []string{"done done done unknown", "ended ended ended unknown"} { // again
		var answer struct{ Results []done }
		r.do(http.StatusOK, operatorToken, "POST", "/v1/cancellations", body).into(t, &answer)
		got := ""
		for _, one := range answer.Results {
			got += " " + string(one.Outcome)
		}
		if got != " "+want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	r.bury("gone")
	var answer struct{ Results []done }
	r.do(http.StatusOK, operatorToken, "POST", "/v1/requeues", `{"ids":["gone","nobody"]}`).into(t, &answer)
	if len(answer.Results) != 2 || answer.Results[0].ID != "gone" || answer.Results[0].Outcome != "done" || answer.Results[1].Outcome != "unknown" {
		t.Errorf("%+v", answer)
	}
	r.bury("purged")
	for _, want := range []operate.Outcome{"done", "unknown"} {
		r.do(http.StatusOK, operatorToken, "POST", "/v1/purges", `{"ids":["purged"]}`).into(t, &answer)
		if len(answer.Results) != 1 || answer.Results[0].Outcome != want {
			t.Errorf("%+v, want %s", answer, want)
		}
	}
}
