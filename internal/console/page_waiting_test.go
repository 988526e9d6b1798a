package console

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// Waiting notifications are counted by cause and limit. The page lists the users with the most
// and with the oldest notifications.
func TestWaitingPageCountsByCause(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	contains(t, r.get(http.StatusOK, "/console/waiting"), "Nothing waits.")
	r.line("ada", 4)
	r.line("bob", 2)
	n := toUser("later", "cleo", "news")
	n.NotBefore, n.CollapseKey = time.Now().Add(time.Hour), "k"
	r.enqueue(n)
	text := r.get(http.StatusOK, "/console/waiting")
	contains(t, text, "7 wait.", "What they wait for", "the general limit 1/1h", "the instant that its producer has set", "a worker, which takes it next",
		`<a href="/console/users/ada?app=shop">`, `value="app=shop&amp;id=ada-1&amp;user=ada"`, "Cancel all that match", `<a href="/console/waiting?app=shop&amp;user=ada">4</a>`)
	lacks(t, text, `class="fault"`, "chip fault", "that were looked at") // the sums are not partial
	for query, want := range map[string]string{
		"?user=ada": "4 match", "?user=ada&app=shop": "4 match", "?app=mail": "Nothing matches", "?category=news": "7 match", "?collapse_key=k": "1 matches",
	} {
		contains(t, r.get(http.StatusOK, "/console/waiting"+query), want)
	}
	for _, bad := range []string{"?x=1", "?user=a&user=b", "?cursor=x", "?cursor=99-0.0", "?cursor=0-0.-1", "?cursor=0-0.99999999", "?user=" + strings.Repeat("x", 129), "?cursor=" + strings.Repeat("1", 100)} {
		r.get(http.StatusBadRequest, "/console/waiting"+bad)
	}
}

// The pages of waiting notifications and of dead letters show each one once, and the newest letters
// first.
func TestListsArePaged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = rowsShown + 7
	var letters []string
	for i := range n {
		letters = append(letters, fmt.Sprint("letter-", i))
		r.addLetter(toUser(letters[i], "ada", ""), "payload", time.Now().Add(-time.Duration(i)*time.Minute))
		r.enqueue(toUser(fmt.Sprint("waits-", i), "ada", ""))
	}
	for path, kind := range map[string]string{"/console/waiting": "waits", "/console/dead-letters": "letter"} {
		var seen []string
		pages := 0
		for at := path; at != "" && pages < 10; pages++ {
			text := r.get(http.StatusOK, at)
			for _, m := range regexp.MustCompile(`name="ref" value="app=shop&amp;id=(`+kind+`-\d+)&amp;`).FindAllStringSubmatch(text, -1) {
				if slices.Contains(seen, m[1]) {
					t.Errorf("%s is there twice", m[1])
				}
				seen = append(seen, m[1])
			}
			at = ""
			if m := regexp.MustCompile(`<a href="([^"]*)" rel="next">`).FindStringSubmatch(text); m != nil {
				at = html.UnescapeString(m[1])
			}
			if len(text) > 60_000 {
				t.Errorf("a page of %s has %d bytes", path, len(text))
			}
		}
		if len(seen) != n || pages != 2 || kind == "letter" && !slices.Equal(seen, letters) {
			t.Errorf("%s: %d of %d on %d pages: %q", path, len(seen), n, pages, seen)
		}
	}
}

// Exactly the selected notifications are cancelled, and the next page shows their number.
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
	// a notification that has ended meanwhile is not counted
	to = r.post(http.StatusSeeOther, "/console/waiting", hidden(t, r.post(http.StatusOK, "/console/waiting", url.Values{"ref": {"id=" + ids[1], "id=" + ids[2]}})))
	contains(t, r.get(http.StatusOK, to), "1 cancelled. The others")
	r.states(map[push.State]int64{push.Waiting: 2, push.Cancelled: 3})
}

// All notifications that match are cancelled if they are no more than the number shown. If there
// are more, nothing is done and the new number is shown.
func TestCancelAllAsksAgainIfMoreMatch(t *testing.T) {
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
	line, err := r.setting.Work.Inspect.Timeline(t.Context(), "shop", "ada", nil)
	must(t, err)
	if len(line.Bookings) != 0 {
		t.Errorf("slots are left: %+v", line.Bookings)
	}
	r.post(http.StatusConflict, "/console/waiting", form)
	r.post(http.StatusConflict, "/console/waiting", url.Values{})
}

// Forged and malformed forms change nothing.
func TestForgedFormCancelsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow, withTokens)
	operator, viewer := r.as(operatorToken), r.as(viewerToken)
	ids := r.line("ada", 3)
	many := url.Values{"confirmed": {"yes"}, "expect": {"1001"}}
	for i := range operate.MostIDs + 1 {
		many.Add("ref", fmt.Sprint("id=", i))
	}
	for status, forms := range map[int][]url.Values{
		http.StatusBadRequest: {{"ref": {"id=" + ids[0]}, "x": {"y"}}, {"ref": {ids[0]}}, many, {"user": {"a", "b"}, "all": {"yes"}}, {"ref": {"id=" + strings.Repeat("x", maxForm)}}},
		http.StatusConflict:   {{"confirmed": {"yes"}, "expect": {"0"}}, {"all": {"yes"}, "user": {"nobody"}, "confirmed": {"yes"}, "expect": {"3"}}},
		http.StatusOK:         {{"all": {"yes"}, "confirmed": {"yes"}}, {"all": {"yes"}, "confirmed": {"true"}, "expect": {"3"}}, {"ref": {"id=" + ids[0]}, "confirmed": {"yes"}, "expect": {"0"}}},
		http.StatusSeeOther:   {{"ref": {"id=nobody"}, "confirmed": {"yes"}, "expect": {"1"}}},
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
}

// maxForm allows selecting all entries of a page, for the longest names.
func TestLongestSelectionFitsForm(t *testing.T) {
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

// With many waiting notifications, a page makes a bounded number of requests to Redis and says that
// it has not read all. It cancels only notifications that it has counted.
func TestWaitingPageIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = countMost + 500
	all := make([]*push.Notification, n)
	for i := range all {
		all[i] = toUser(fmt.Sprintf("n-%d", i), fmt.Sprintf("user-%d", i%97), "news")
	}
	for batch := range slices.Chunk(all, 1000) {
		r.enqueue(batch...)
	}
	var count redistest.Trips
	r.client.AddHook(&count)
	for query, want := range map[string]string{"": " of 20,500.", "?user=user-3": "there may be more.", "?user=nobody": "there may be more."} {
		text := r.get(http.StatusOK, "/console/waiting"+query)
		if got, _ := count.Commands(); got == 0 || got > 300 || len(text) > 60_000 {
			t.Errorf("%q takes %d commands, and has %d bytes", query, got, len(text))
		}
		contains(t, text, "Showing the first ", want)
		if query == "" { // the sums are the overview's
			contains(t, text, "<caption>What they wait for</caption>", ">20,500</a>")
		}
	}
	r.get(http.StatusOK, "/console/find?q=nobody")
	if n, _ := count.Commands(); n > 200 {
		t.Errorf("to find nobody takes %d commands", n)
	}
	contains(t, r.post(http.StatusConflict, "/console/waiting", url.Values{"all": {"yes"}}), "pushpace cancel --all")
	r.states(map[push.State]int64{push.Waiting: n})
}
