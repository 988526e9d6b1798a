package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/queue"
)

// hostile are names that a browser could take for something else.
var hostile = []string{`"><script>alert(1)</script>`, "<img src=x onerror=alert(1)>", `';alert(1)//`, "{{.}}", "a/../b?c#d%", "..", "日本 אבג"}

// hidden are the fields of the form that a page asks to confirm.
func hidden(t *testing.T, text string) url.Values {
	t.Helper()
	form := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(text, -1) {
		form.Add(unescaped(m[1]), unescaped(m[2]))
	}
	if form.Get("confirmed") != "yes" {
		t.Fatalf("nothing is to be confirmed:\n%s", text)
	}
	return form
}

var unescaper = strings.NewReplacer("&#34;", `"`, "&#39;", "'", "&lt;", "<", "&gt;", ">", "&#43;", "+", "&amp;", "&")

func unescaped(text string) string { return unescaper.Replace(text) }

// Who waits is told by cause and rule, with those who wait most and longest.
func TestWaiting(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	contains(t, r.get(http.StatusOK, "/console/waiting"), "Nothing waits.")
	r.line("ada", 4)
	r.line("bob", 2)
	n := toUser("later", "cleo", "news")
	n.NotBefore, n.CollapseKey = time.Now().Add(time.Hour), "k"
	r.enqueue(n)
	text := r.get(http.StatusOK, "/console/waiting")
	contains(t, text, "7 wait.", "the general limit 1/1h", "the instant that its producer has set", "a worker, which takes it next",
		`<a href="/console/users/ada?app=shop">`, `value="app=shop&amp;id=ada-1&amp;user=ada"`, "Cancel all that match", `<a href="/console/waiting?app=shop&amp;user=ada">4</a>`)
	lacks(t, text, `class="fault"`, "chip fault")
	for query, want := range map[string]string{
		"?user=ada": "4 match", "?user=ada&app=shop": "4 match", "?app=mail": "Nothing matches", "?category=news": "7 match", "?collapse_key=k": "1 matches", "?user=" + url.QueryEscape(hostile[0]): "Nothing matches",
	} {
		contains(t, r.get(http.StatusOK, "/console/waiting"+query), want)
	}
	for _, bad := range []string{"?x=1", "?user=a&user=b", "?cursor=x", "?cursor=99-0.0", "?cursor=0-0.-1", "?cursor=0-0.99999999", "?user=" + strings.Repeat("x", 129), "?cursor=" + strings.Repeat("1", 100)} {
		r.get(http.StatusBadRequest, "/console/waiting"+bad)
	}
}

// The pages of the list show each once.
func TestWaitingPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 3*rowsShown + 7
	var all []*push.Notification
	for i := range n {
		all = append(all, toUser(fmt.Sprintf("n-%d", i), "ada", ""))
	}
	r.enqueue(all...)
	seen := map[string]bool{}
	at, pages := "/console/waiting", 0
	for ; at != "" && pages < 10; pages++ {
		text := r.get(http.StatusOK, at)
		for _, m := range regexp.MustCompile(`name="ref" value="app=shop&amp;id=(n-\d+)&amp;`).FindAllStringSubmatch(text, -1) {
			if seen[m[1]] {
				t.Errorf("%s is there twice", m[1])
			}
			seen[m[1]] = true
		}
		at = ""
		if m := regexp.MustCompile(`<a href="([^"]*)" rel="next">`).FindStringSubmatch(text); m != nil {
			at = unescaped(m[1])
		}
		if len(text) > 60_000 {
			t.Errorf("a page has %d bytes", len(text))
		}
	}
	if len(seen) != n || pages != 4 {
		t.Errorf("%d of %d on %d pages", len(seen), n, pages)
	}
}

// Those that are selected are cancelled, these very ones, and their number is told.
func TestCancelSelected(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	ids := r.line("ada", 5)
	form := url.Values{"ref": {selectable(ids[1], "shop", "ada"), "id=" + ids[3]}, "user": {"ada"}}
	asked := r.post(http.StatusOK, "/console/waiting", form)
	contains(t, asked, "2 notifications that wait are ended", ids[1], ids[3], "Cancel 2")
	r.states(map[push.State]int64{push.Waiting: 5})
	to := r.post(http.StatusSeeOther, "/console/waiting", hidden(t, asked))
	contains(t, r.get(http.StatusOK, to), "2 cancelled.", "3 match")
	r.states(map[push.State]int64{push.Waiting: 3, push.Cancelled: 2})
	if r.state(ids[1]) != push.Cancelled || r.state(ids[3]) != push.Cancelled {
		t.Error("others are cancelled")
	}
	// what has ended meanwhile is not counted as done
	to = r.post(http.StatusSeeOther, "/console/waiting", hidden(t, r.post(http.StatusOK, "/console/waiting", url.Values{"ref": {"id=" + ids[1], "id=" + ids[2]}})))
	contains(t, r.get(http.StatusOK, to), "1 cancelled. The others")
	r.states(map[push.State]int64{push.Waiting: 2, push.Cancelled: 3})
}

// All that match are cancelled when their number is the one that was shown; when it has
// changed nothing is done, and the new one is shown.
func TestCancelAllThatMatch(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	r.line("ada", 4)
	r.line("bob", 3)
	form := url.Values{"all": {"yes"}, "user": {"ada"}}
	first := r.post(http.StatusOK, "/console/waiting", form)
	contains(t, first, "4 notifications that wait are ended", "all that match", "<dt>User</dt>")
	r.visitLimits(toUser("ada-more", "ada", "news"))
	again := r.post(http.StatusOK, "/console/waiting", hidden(t, first))
	contains(t, again, "It has changed in the meantime, and nothing was done.", "5 notifications that wait are ended")
	r.states(map[push.State]int64{push.Waiting: 8})
	to := r.post(http.StatusSeeOther, "/console/waiting", hidden(t, again))
	contains(t, r.get(http.StatusOK, to), "5 cancelled.", "Nothing matches.")
	r.states(map[push.State]int64{push.Waiting: 3, push.Cancelled: 5})
	line, err := r.setting.Work.Control.Timeline(t.Context(), "shop", "ada", nil)
	must(t, err)
	if len(line.Bookings) != 0 {
		t.Errorf("slots are left: %+v", line.Bookings)
	}
	r.post(http.StatusConflict, "/console/waiting", form)
	r.post(http.StatusConflict, "/console/waiting", url.Values{})
}

// Forged and odd forms change nothing.
func TestForgedCancellations(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow, func(o *setting) {
		o.Tokens.Set([]config.Token{testToken("ada", config.Operator, "o"), testToken("eve", config.Viewer, "v")})
	})
	operator, viewer := r.as("o"), r.as("v")
	ids := r.line("ada", 3)
	many := url.Values{"confirmed": {"yes"}, "expect": {"101"}}
	for i := range 101 {
		many.Add("ref", fmt.Sprint("id=", i))
	}
	for status, forms := range map[int][]url.Values{
		http.StatusBadRequest: {{"ref": {"id=" + ids[0]}, "x": {"y"}}, {"ref": {ids[0]}}, {"ref": {"id=%"}}, many, {"user": {"a", "b"}, "all": {"yes"}}, {"ref": {"id=" + strings.Repeat("x", maxForm)}}},
		http.StatusConflict:   {{"confirmed": {"yes"}, "expect": {"0"}}, {"all": {"yes"}, "user": {"nobody"}, "confirmed": {"yes"}, "expect": {"3"}}},
		http.StatusOK: {{"all": {"yes"}}, {"all": {"yes"}, "confirmed": {"yes"}}, {"all": {"yes"}, "confirmed": {"yes"}, "expect": {"2"}}, {"all": {"yes"}, "confirmed": {"true"}, "expect": {"3"}},
			{"ref": bare(ids), "confirmed": {"yes"}, "expect": {"2"}}, {"all": {"yes"}, "expect": {"3"}}},
		http.StatusSeeOther: {{"ref": bare(hostile), "confirmed": {"yes"}, "expect": {fmt.Sprint(len(hostile))}}},
	} {
		for _, form := range forms {
			operator.post(status, "/console/waiting", form)
		}
	}
	const pauseFirst = "pause these first"
	lacks(t, operator.post(http.StatusOK, "/console/waiting", url.Values{"all": {"yes"}}), pauseFirst)
	contains(t, operator.post(http.StatusOK, "/console/waiting", url.Values{"all": {"yes"}, "confirmed": {"yes"}, "expect": {"2"}}), "nothing was done", pauseFirst)
	viewer.post(http.StatusForbidden, "/console/waiting", url.Values{"all": {"yes"}, "confirmed": {"yes"}, "expect": {"3"}})
	r.states(map[push.State]int64{push.Waiting: 3})
	lacks(t, viewer.get(http.StatusOK, "/console/waiting"), "Cancel", `name="ref"`)
	for _, name := range hostile {
		text := operator.post(http.StatusOK, "/console/waiting", url.Values{"ref": {selectable("one", name, name), selectable(name, "", "")}})
		lacks(t, text, "<script>alert", "<img")
	}
}

// bare are what selects these by their IDs alone.
func bare(ids []string) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = selectable(id, "", "")
	}
	return all
}

// All that a page shows can be selected, of whatever names.
func TestTheLongestSelection(t *testing.T) {
	t.Parallel()
	id, name := strings.Repeat("%", longestID), strings.Repeat("é", push.MaxNameBytes/2)
	form := url.Values{"ref": slices.Repeat([]string{selectable(id, name, name)}, rowsShown)}
	for _, field := range waitingFilter {
		form.Set(field, name)
	}
	if got := len(form.Encode()); got > maxForm {
		t.Errorf("%d bytes, at most %d are read", got, maxForm)
	}
}

// A bearer of some apps sees and cancels theirs alone.
func TestWaitingOfSomeApps(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *setting) { o.Work.Apps["mail"] = o.Work.Apps["shop"] })
	mail := toUser("mail-1", "bob", "")
	mail.App = "mail"
	r.enqueue(toUser("shop-1", "ada", ""), toUser("shop-2", "ada", ""), mail)
	some := []string{"mail"}
	status, text := r.ofApps(some, http.MethodGet, "/console/waiting", nil)
	contains(t, text, "1 waits", "mail-1")
	lacks(t, text, "shop", "ada")
	if status != http.StatusOK {
		t.Error(status)
	}
	if status, _ := r.ofApps(some, http.MethodGet, "/console/waiting?app=shop", nil); status != http.StatusForbidden {
		t.Error(status)
	}
	if status, _ := r.ofApps(some, http.MethodPost, "/console/waiting", url.Values{"ref": {"id=shop-1"}, "confirmed": {"yes"}, "expect": {"1"}}); status != http.StatusSeeOther {
		t.Error(status)
	}
	if status, _ := r.ofApps(some, http.MethodPost, "/console/waiting", url.Values{"all": {"yes"}, "app": {"shop"}, "confirmed": {"yes"}, "expect": {"2"}}); status != http.StatusForbidden {
		t.Error(status)
	}
	r.states(map[push.State]int64{push.Waiting: 3})
	if status, text := r.ofApps(some, http.MethodPost, "/console/waiting", url.Values{"all": {"yes"}, "confirmed": {"yes"}, "expect": {"1"}}); status != http.StatusSeeOther {
		t.Error(status, text)
	}
	r.states(map[push.State]int64{push.Waiting: 2, push.Cancelled: 1})
	if r.state("mail-1") != push.Cancelled {
		t.Error("another one is cancelled")
	}
}

// A page over 100,000 that wait asks Redis for so much and no more, and says so; nothing
// is cancelled that was not counted.
func TestWaitingOfMany(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 100_000
	batch := make([]*push.Notification, 0, 1000)
	for i := range n {
		if batch = append(batch, toUser(fmt.Sprintf("n-%d", i), fmt.Sprintf("user-%d", i%997), "news")); len(batch) == cap(batch) {
			r.enqueue(batch...)
			batch = batch[:0]
		}
	}
	var count counter
	r.client.AddHook(&count)
	for query, most := range map[string]int64{"": 200, "?user=user-3": 200, "?user=nobody": 200, "?cursor=6-0.0": 100} {
		count.commands.Store(0)
		text := r.get(http.StatusOK, "/console/waiting"+query)
		if got := count.commands.Load(); got == 0 || got > most {
			t.Errorf("%q takes %d commands, at most %d", query, got, most)
		} else {
			t.Logf("%q takes %d commands", query, got)
		}
		switch query {
		case "":
			contains(t, text, "Showing the first ", " of 100,000.")
		case "?user=user-3", "?user=nobody":
			contains(t, text, "Showing the first ", "there may be more.")
		}
		if len(text) > 60_000 {
			t.Errorf("%q: %d bytes", query, len(text))
		}
	}
	count.commands.Store(0)
	if r.get(http.StatusOK, "/console/find?q=nobody"); count.commands.Load() > 200 {
		t.Errorf("to find nobody takes %d commands", count.commands.Load())
	}
	if text := r.post(http.StatusConflict, "/console/waiting", url.Values{"all": {"yes"}}); !strings.Contains(text, "pushpace cancel --all") {
		t.Error(text)
	}
	r.states(map[push.State]int64{push.Waiting: n})
}

// What is shown is told beside how many wait.
func TestCoverage(t *testing.T) {
	t.Parallel()
	found := &sight{rows: make([]control.Queued, queue.PageSize+1), pages: make([]sightPage, 1), next: "6-0"}
	if got, want := coverage(found, false, 5000), "Showing the first 201 of 5,000."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
