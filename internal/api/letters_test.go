package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/access"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/ledger/ledgertest"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// bury has a notification end as a dead letter.
func (r *rig) bury(id string) {
	r.t.Helper()
	var n push.Notification
	if err := json.Unmarshal([]byte(notification(id, "ada")), &n); err != nil {
		r.t.Fatal(err)
	}
	job, err := push.Encode(&push.Job{Notification: &n, AcceptedAt: time.Now()})
	if err != nil {
		r.t.Fatal(err)
	}
	letter := &ledger.Letter{ID: id, State: push.Rejected, Reason: "payload", Attempts: 1, At: time.Now(), Queue: push.Default.Queue(), Job: job}
	if _, err := ledgertest.At(r.t, r.options.Records, id).Settle(r.t.Context(), id, &ledger.End{State: push.Rejected, Letter: letter}); err != nil {
		r.t.Fatal(err)
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const id = "a/b c?"
	path := "/v1/dead-letters/" + url.PathEscape(id)
	r.do(http.StatusNotFound, viewerToken, "GET", path, "")
	r.bury(id)
	var shown struct {
		ledger.Letter
		Notification *push.Notification `json:"notification"`
	}
	r.do(http.StatusOK, viewerToken, "GET", path, "").into(t, &shown)
	if shown.Letter.ID != id || shown.Notification == nil || shown.Notification.User != "ada" || len(shown.Job) == 0 {
		t.Errorf("%+v", shown)
	}
	r.do(http.StatusForbidden, viewerToken, "POST", path+"/requeue", "")
	r.do(http.StatusAccepted, operatorToken, "POST", path+"/requeue", "")
	r.do(http.StatusNotFound, operatorToken, "POST", path+"/requeue", "")
	var status control.Status
	r.do(http.StatusOK, viewerToken, "GET", "/v1/notifications/"+url.PathEscape(id), "").into(t, &status)
	if status.State != push.Waiting {
		t.Errorf("%+v", status)
	}
	r.bury("other")
	r.do(http.StatusNoContent, operatorToken, "DELETE", "/v1/dead-letters/other", "")
	r.do(http.StatusNotFound, operatorToken, "DELETE", "/v1/dead-letters/other", "")
	if counts := r.counts(); counts.Ended[push.Rejected] != 1 || counts.Waiting() != 1 {
		t.Errorf("%+v", counts)
	}
}

// All dead letters come, page by page.
func TestDeadLettersInPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const all = 60
	for i := range all {
		r.bury(fmt.Sprintf("n-%d", i))
	}
	seen := map[string]bool{}
	pages := 0
	for next := ""; ; pages++ {
		var p struct {
			Letters []ledger.Letter `json:"dead_letters"`
			Next    string
		}
		r.do(http.StatusOK, viewerToken, "GET", "/v1/dead-letters?limit=7&cursor="+next, "").into(t, &p)
		for _, l := range p.Letters {
			seen[l.ID] = true
		}
		if next = p.Next; next == "" {
			break
		}
	}
	if len(seen) != all || pages < 3 {
		t.Errorf("%d letters on %d pages", len(seen), pages)
	}
	for query, want := range map[string]int{"app=demo&category=orders&reason=payload&since=1d": all, "app=gone": 0, "category=chat": 0, "reason=auth": 0, "since=1ns": 0} {
		var p struct {
			Letters []ledger.Letter `json:"dead_letters"`
		}
		r.do(http.StatusOK, viewerToken, "GET", "/v1/dead-letters?limit=1000&"+query, "").into(t, &p)
		if len(p.Letters) != want {
			t.Errorf("%s: %d letters, want %d", query, len(p.Letters), want)
		}
	}
	for _, query := range []string{"since=x", "since=-1h", "reson=x", "limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=16-0", "cursor=-1", "cursor=0", "cursor=1.5"} {
		r.do(http.StatusBadRequest, viewerToken, "GET", "/v1/dead-letters?"+query, "")
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("one", "ada"))
	var audit control.Audit
	r.do(http.StatusOK, viewerToken, "GET", "/v1/audit", "").into(t, &audit)
	if audit.Accepted != 1 || audit.Waiting != 1 || audit.Queued != 1 || audit.Balance() != control.Balanced {
		t.Errorf("%+v", audit)
	}
}

// This process may name a dead letter of any length: that of a job that was no notification
// is whatever it was put on the queue by.
func TestALongLetterOfThisProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := strings.Repeat("x", 3*maxPath)
	letter := &ledger.Letter{ID: id, State: ledger.Malformed, Reason: "not_json", At: time.Now(), Queue: push.Default.Queue(), Job: []byte("x")}
	if err := ledgertest.First(r.t, r.options.Records).SetAside(t.Context(), letter); err != nil {
		t.Fatal(err)
	}
	path := "/v1/dead-letters/" + id
	r.do(http.StatusNotFound, operatorToken, "GET", path, "")
	r.api = New(Options{Service: r.service, Local: &access.Bearer{Name: "ann@here", Role: config.Operator}, Log: r.options.Log})
	r.do(http.StatusOK, "", "GET", path, "")
	r.do(http.StatusNoContent, "", "DELETE", path, "")
	if log := strings.Join(r.log.lines(), "\n"); !strings.Contains(log, `"by":"ann@here"`) {
		t.Error(log)
	}
}
