package api

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/trail"
	"github.com/pushpace/pushpace/throttle/limits"
)

// Who did what is told, the newest first, page by page.
func TestActions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var page struct{ Actions []trail.Entry }
	if r.do(http.StatusOK, viewerToken, "GET", "/v1/actions", "").into(t, &page); page.Actions == nil || len(page.Actions) != 0 {
		t.Errorf("of nothing: %+v", page)
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	r.do(http.StatusOK, operatorToken, "PUT", "/v1/limits/users/eve/categories/news?app=shop", `{"rates":["1/1h"]}`)
	r.do(http.StatusNoContent, operatorToken, "PUT", "/v1/pauses?platform=apns", fmt.Sprintf(`{"until":%q,"reason":"a reason"}`, until.Format(time.RFC3339Nano)))
	for _, id := range []string{"one", "two", "three"} {
		r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification(id, "ada"))
	}
	r.do(http.StatusOK, operatorToken, "POST", "/v1/cancellations", `{"ids":["one","two","none"]}`)
	r.do(http.StatusOK, producerToken, "DELETE", "/v1/notifications/three", "")
	r.do(http.StatusOK, viewerToken, "GET", "/v1/actions?limit=2", "").into(t, &page)
	if len(page.Actions) != 2 {
		t.Fatalf("%+v", page.Actions)
	}
	if e := page.Actions[0]; e.Action != trail.Cancel || e.By != "ada" || e.Count != 2 || e.App == "" || e.ID != "" {
		t.Errorf("%+v", e)
	}
	if e := page.Actions[1]; e.Action != trail.Pause || e.Platform != "apns" || e.Reason != "a reason" || !e.Until.Equal(until) {
		t.Errorf("%+v", e)
	}
	r.do(http.StatusOK, operatorToken, "GET", "/v1/actions?limit=2&before="+page.Actions[1].Cursor, "").into(t, &page)
	if len(page.Actions) != 1 || page.Actions[0].Action != trail.SetLimit || page.Actions[0].Level != (limits.Level{App: "shop", User: "eve", Category: "news"}) {
		t.Errorf("%+v", page.Actions)
	}
	for _, query := range []string{"limit=0", "limit=1001", "before=x", "before=0-0", "before=-", "after=1"} {
		r.do(http.StatusBadRequest, viewerToken, "GET", "/v1/actions?"+query, "")
	}
	r.do(http.StatusForbidden, producerToken, "GET", "/v1/actions", "")
}
