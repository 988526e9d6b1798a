package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
)

// letters expects exactly these dead letters.
func (r *rig) letters(want ...string) {
	r.t.Helper()
	counts, err := r.setting.Work.Records.Counts(r.t.Context())
	must(r.t, err)
	if int(counts.Letters) != len(want) {
		r.t.Errorf("there are %d, want %q", counts.Letters, want)
	}
	for _, id := range want {
		if _, _, err := r.setting.Work.Records.Letter(r.t.Context(), push.Ref{ID: id}, push.Contents, nil); err != nil {
			r.t.Errorf("%s: %v", id, err)
		}
	}
}

// Dead letters are counted by reason, app and age, and listed newest first.
func TestLettersPageCountsByReason(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	contains(t, r.get(http.StatusOK, "/console/dead-letters"), "No dead letters.")
	now := time.Now()
	r.addLetter(toUser("old", "ada", "news"), "unknown_app", now.Add(-48*time.Hour))
	r.addLetter(toUser("new", "ada", "news"), "payload", now.Add(-time.Minute))
	r.addLetter(toUser("middle", "bob", "orders"), "payload", now.Add(-3*time.Hour))
	text := r.get(http.StatusOK, "/console/dead-letters")
	contains(t, text, "3 dead letters.", `href="/console/dead-letters?reason=payload"`, `href="/console/dead-letters?app=shop"`, `href="/console/dead-letters?since=24h"`)
	if a, b, c := strings.Index(text, `id=new&amp;`), strings.Index(text, `id=middle&amp;`), strings.Index(text, `id=old&amp;`); a < 0 || a > b || b > c {
		t.Errorf("not the newest first: %d %d %d", a, b, c)
	}
	for query, want := range map[string]string{
		"reason=payload": "2 dead letters.", "reason=payload&category=news": "1 dead letter.", "since=1h": "1 dead letter.", "since=24h": "2 dead letters.", "app=mail": "No dead letters.",
	} {
		contains(t, r.get(http.StatusOK, "/console/dead-letters?"+query), want)
	}
	for _, bad := range []string{"x=1", "since=never", "skip=-1", "cursor=x", "app=a&app=b"} {
		r.get(http.StatusBadRequest, "/console/dead-letters?"+bad)
	}
}

// The page of a dead letter shows its reason and payload, without tokens.
func TestLetterPageHidesTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.addLetter(toUser("one", "ada", "news"), "payload", time.Now())
	text := r.get(http.StatusOK, "/console/dead-letters/one")
	contains(t, text, "it is payload", "<details>", "…a1b2c3", "10000000000000001", "chip fault", `href="/console/notifications/one?app=shop&amp;user=ada"`)
	lacks(t, text, secret[:20])
	must(t, storetest.First(r.t, r.setting.Work.Records).SetAside(t.Context(), &store.Letter{ID: "bad/?<b>", State: store.Malformed, Reason: "not_json", At: time.Now(), Queue: push.Default.Queue(), Job: []byte(`"token":"` + secret + "\"\x00\xff")}))
	text = r.get(http.StatusOK, pathOf("dead-letters", "bad/?<b>"))
	contains(t, text, "malformed", "not_json")
	lacks(t, text, "<b>", secret[:20], "\x00")
	for _, id := range []string{"none", "%00"} {
		r.get(http.StatusNotFound, "/console/dead-letters/"+id)
		r.post(http.StatusNotFound, "/console/dead-letters/"+id, url.Values{"do": {"purge"}, "confirmed": {"yes"}})
	}
}

// One letter, the selected letters, or all that match are requeued or purged: exactly the
// selected ones, and all only if they are no more than the number shown.
func TestOnlySelectedLettersAreChanged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.addLetter(toUser("again", "ada", "news"), "payload", time.Now())
	r.addLetter(toUser("gone", "ada", "news"), "payload", time.Now())
	for i := range 3 {
		r.addLetter(toUser(fmt.Sprintf("news-%d", i), "ada", "news"), "payload", time.Now())
		r.addLetter(toUser(fmt.Sprintf("order-%d", i), "ada", "orders"), "unknown_app", time.Now())
	}
	const at = "/console/dead-letters"
	for _, bad := range []url.Values{{}, {"do": {"x"}}, {"do": {"purge", "requeue"}}, {"do": {"purge"}, "confirmed": {"yes"}, "x": {"y"}}} {
		r.post(http.StatusBadRequest, at+"/again", bad)
	}
	for id, does := range map[string]string{"again": "requeue", "gone": "purge"} {
		asked := r.post(http.StatusOK, at+"/"+id, url.Values{"do": {does}})
		contains(t, asked, "1 dead letter is ", id)
		r.post(http.StatusSeeOther, at+"/"+id, hidden(t, asked))
	}
	r.states(map[push.State]int64{push.Waiting: 1, push.Rejected: 7})
	asked := r.post(http.StatusOK, at, url.Values{"do": {"purge"}, "ref": {"id=news-0", "id=order-1"}})
	contains(t, asked, "2 dead letters are deleted for good", "news-0", "order-1")
	contains(t, r.get(http.StatusOK, r.post(http.StatusSeeOther, at, hidden(t, asked))), "2 purged.")
	r.letters("news-1", "news-2", "order-0", "order-2")

	asked = r.post(http.StatusOK, at, url.Values{"do": {"requeue-all"}, "reason": {"unknown_app"}})
	contains(t, asked, "2 dead letters are put back", "<dt>Reason</dt>")
	r.addLetter(toUser("order-9", "ada", "orders"), "unknown_app", time.Now())
	asked = r.post(http.StatusOK, at, hidden(t, asked))
	contains(t, asked, "nothing was done", "3 dead letters are put back")
	r.letters("news-1", "news-2", "order-0", "order-2", "order-9")
	contains(t, r.get(http.StatusOK, r.post(http.StatusSeeOther, at, hidden(t, asked))), "3 requeued.")
	r.letters("news-1", "news-2")
	r.states(map[push.State]int64{push.Waiting: 4, push.Rejected: 5})

	asked = r.post(http.StatusOK, at, url.Values{"do": {"purge"}, "ref": {"id=news-1", "id=never"}})
	contains(t, r.get(http.StatusOK, r.post(http.StatusSeeOther, at, hidden(t, asked))), "1 purged. The others")
	r.post(http.StatusConflict, at, url.Values{"do": {"purge"}})
	r.post(http.StatusBadRequest, at, url.Values{"do": {"all"}, "confirmed": {"yes"}, "expect": {"1"}})
	r.letters("news-2")
}
