package console

import (
	"fmt"
	"html"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// acquire asks the limiter to grant a notification of the app's user, without a worker.
func (r *rig) acquire(app, user, id, category string) {
	r.t.Helper()
	_, err := r.limiter.Acquire(r.t.Context(), throttle.Request{App: app, User: user, ID: id, Category: category,
		Scopes: r.setting.Work.Limits.Scopes(app, user, category), Horizon: 3000 * time.Hour, MaxBooked: throttle.MaxEntries})
	must(r.t, err)
}

// sent waits until n admissions of the user are in the past by Redis's clock. An admission may be
// slightly ahead of that clock.
func (r *rig) sent(app, user string, n int) {
	r.t.Helper()
	eventually.Holds(r.t, "the pushes are sent", func() bool {
		t, err := r.setting.Work.Inspect.Timeline(r.t.Context(), app, user, nil)
		must(r.t, err)
		return len(t.Scopes[0].Admissions) == n
	})
}

// has expects the texts on the page in this order.
func (r *rig) has(page string, texts ...string) {
	r.t.Helper()
	rest := strings.ReplaceAll(page, "&#43;", "+")
	for _, want := range texts {
		_, after, found := strings.Cut(rest, want)
		if !found {
			r.t.Fatalf("there is no %q, or not there:\n%s", want, page)
		}
		rest = after
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	r.setting.Work.Limits.SetBase(rates(time.Hour), map[string]throttle.Policy{"digest": rates(0, throttle.Rate{Count: 1, Period: 24 * time.Hour}), "security": {Exempt: true}})
	const user = "O'Brien & <Söhne>/日"
	r.visitLimits(toUser("first", user, ""))
	critical := toUser("second", user, "")
	critical.Priority = push.Critical
	r.enqueue(critical)
	r.acquire("shop", user, "second", "")
	r.acquire("shop", user, "third", "digest")
	r.acquire("shop", user, "fourth", "digest")
	r.sent("shop", user, 1)
	until := time.Now().Add(2 * time.Hour)
	r.set(limits.Override{Level: limits.Level{App: "shop", User: user}, Policy: rates(time.Hour), Until: until})
	path := pathOf("users", user)
	page := r.as(viewerToken).get(http.StatusOK, path)
	r.has(page, "<h1>User O&#39;Brien &amp; &lt;Söhne&gt;/日</h1>",
		"second is next, and waits another ", "for the general limit gap of 1h after first. 3 have slots",
		`<a href="`+html.EscapeString(refTo("notifications", push.Ref{ID: "second", App: "shop", User: user}))+`">`, "<bdi>first</bdi> + 1h",
		`<svg class="picture"`, "<title>Timeline of ", ">general</tspan></text>", ">1 sent, 2 booked; 1 later</text>", "second", ">digest</tspan></text>", "1/24h: 0 of 1, free now", ">security</tspan></text>", ">exempt</text>",
		"Limits in force", ">general</th><td>gap 1h</td>", "1 of 1", "<td>app and user</td>", until.UTC().Format("2006-01-02 15:04"),
		"<bdi>digest</bdi></th><td>1/24h</td>", "configuration", "<bdi>security</bdi></th><td>exempt</td>",
		"What waits", "1 to 3 of 3", "<bdi>second</bdi></a>", "critical", "the general limit gap of 1h", "<bdi>first</bdi> + 1h", "queued",
		"<bdi>third</bdi></a>", "<bdi>second</bdi> + 1h", "<bdi>digest</bdi>", "not known",
		"<bdi>fourth</bdi></a>", "the limit 1/24h of category digest", "<bdi>third</bdi> + 24h",
		"What was sent", "<bdi>first</bdi></a>")
	if strings.Contains(page, "limits/edit") || strings.Contains(page, "<form") && !strings.Contains(page, "signout") {
		t.Error("a viewer is offered to change something")
	}
	r.has(r.as(operatorToken).get(http.StatusOK, path), `href="/console/limits/edit?app=shop&amp;user=O%27Brien`, `category=digest`)
	one := r.as(viewerToken).get(http.StatusOK, path+"?category=digest&span=24h")
	r.has(one, `aria-current="page"><bdi>digest</bdi>`, `aria-current="page">24h`, ">+24h</text>", ">digest</tspan></text>")
	if strings.Contains(one, ">exempt</text>") {
		t.Error("another category is shown too")
	}
}

// A user's page shows the quiet hours with their end, and muted categories. The preview of limits
// shows the next quiet hours.
func TestUserInQuietHours(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	general := rates(time.Hour)
	general.Night.Zone = time.UTC
	now := time.Now().UTC()
	night, err := quiet.Parse(now.Add(-time.Hour).Format("15:04") + "-" + now.Add(2*time.Hour).Format("15:04"))
	must(t, err)
	general.Quiet = quiet.Hours{night}
	r.setting.Work.Limits.SetBase(general, map[string]throttle.Policy{"news": rates(time.Minute)})
	r.set(limits.Override{Level: limits.Level{User: "ada", Category: "news", Mute: true}})
	page := r.get(http.StatusOK, "/console/users/ada?app=shop&category=news&span=24h")
	r.has(page, "nothing waits. The general quiet hours end in ", `<path class="night"`, "muted; 0 sent",
		">general</th><td>quiet ", " in UTC</td>", "closed", "<bdi>news</bdi></th><td>muted</td>")
	r.has(r.get(http.StatusOK, "/console/limits/preview?user=ada&quiet_hours=22:00-08:00&over=0"), "Then in force", "quiet from ", "quiet from <time", "In force now", "quiet from ")
}

// The category of a sent notification is that of its record, also without limits of its own. It is
// unknown once the record is forgotten.
func TestSentCategory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(toUser("known", "ada", "orders"))
	r.acquire("shop", "ada", "known", "")
	r.acquire("shop", "ben", "forgotten", "")
	r.has(r.get(http.StatusOK, "/console/users/ada?app=shop"), "What was sent", "<bdi>known</bdi>", "<td><bdi>orders</bdi></td>")
	r.has(r.get(http.StatusOK, "/console/users/ben?app=shop"), "What was sent", "<bdi>forgotten</bdi>", "<td>–</td>")
}

// The filters suggest the categories that have limits of their own, as the forms do.
func TestFiltersSuggestCategories(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.setting.Work.Limits.SetBase(rates(time.Hour), map[string]throttle.Policy{"news": rates(time.Minute)})
	for _, path := range []string{"/console/waiting", "/console/dead-letters"} {
		r.has(r.get(http.StatusOK, path), `name="category"`, `list="categories"`, `<datalist id="categories"><option value="news">`)
	}
}

func TestUserAddresses(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *setting) { o.Work.Apps["mail"] = o.Work.Apps["shop"] })
	r.has(r.get(http.StatusOK, "/console/users/ada?span=1h"), "Choose the app", `href="/console/users/ada?app=mail&amp;span=1h"`, `app=shop`)
	r.has(r.get(http.StatusOK, "/console/users/nobody?app=shop"), "Nothing is known of <bdi>nobody</bdi> in <bdi>shop</bdi>", "nothing waits for a limit", "gap 1h: 0 of 1, free now", "limits/edit?app=shop&amp;user=nobody", "Nothing waits", "Nothing was sent")
	for path, want := range map[string]int{
		"ada?app=shop&span=7d&from=25&sent=1000000": http.StatusOK, "%C3%B6%2Fd%20a?category=security": http.StatusOK,
		"ada?app=none": http.StatusNotFound, "ada?span=2h": http.StatusBadRequest, "ada?from=-1": http.StatusBadRequest, "ada?x=1": http.StatusBadRequest, "ada?category=" + strings.Join(strings.Split("abcdefghijklmnopqrstuvwxyz0123", ""), "&category="): http.StatusBadRequest,
	} {
		r.get(want, "/console/users/"+path)
	}
}

// A user with 1,000 bookings has a page of at most 60 kB, made with few round trips and a bounded
// number of commands.
func TestUserWithManyBookings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.setting.Work.Limits.SetBase(rates(time.Second, throttle.Rate{Count: 1000, Period: 24 * time.Hour}), map[string]throttle.Policy{
		"marketing": rates(0, throttle.Rate{Count: 900, Period: 24 * time.Hour}), "digest": rates(0, throttle.Rate{Count: 800, Period: 24 * time.Hour}), "security": {Exempt: true}})
	for i := range 3 {
		r.acquire("shop", "busy", fmt.Sprint("first-", i), "marketing")
	}
	r.stretch("shop", "busy", "marketing", 1000)
	// the page reads the states of the first bookings
	for i := range 3 {
		r.enqueue(toUser(fmt.Sprint("first-", i), "busy", "marketing"))
	}
	var count redistest.Trips
	r.client.AddHook(&count)
	r.get(http.StatusOK, "/console/users/busy")
	if commands, trips := count.Commands(); trips > 12 || commands > 1000 {
		t.Errorf("%d round trips of %d commands", trips, commands)
	}
	for _, span := range []string{"auto", "1m", "24h"} {
		at := "/console/users/busy?span=" + span
		page := r.get(http.StatusOK, at)
		if len(page) > 60_000 {
			t.Errorf("%s: %d bytes", span, len(page))
		}
		r.has(page, "is next", "1000 or more have slots", "25 of 1,000", "<h2>What was sent", "1 to 25 of ")
	}
	last := r.get(http.StatusOK, "/console/users/busy?from=1000000")
	if r.has(last, "976 to 1,000 of 1,000", "from=950"); len(last) > 60_000 || strings.Contains(last, "from=1000") {
		t.Errorf("the last page has %d bytes", len(last))
	}
}

// stretch adds n waiting and n sent notifications of the category to a user with waiting
// notifications.
func (r *rig) stretch(app, user, category string, n int) {
	r.t.Helper()
	base := "pushpace:{" + app + "/" + user + "}:"
	last, err := r.client.ZRevRangeWithScores(r.t.Context(), base+"slots", 0, 0).Result()
	must(r.t, err)
	if len(last) != 1 {
		r.t.Fatal("nobody waits")
	}
	now, err := r.client.Time(r.t.Context()).Result()
	must(r.t, err)
	var slots, sent []redis.Z
	for i := range n {
		at := last[0].Score + float64(i+1)*1.003e6
		slots = append(slots, redis.Z{Score: at, Member: fmt.Sprintf("%s  019f4b1c-7d2e-7a31-9c55-%012d", category, i)})
		sent = append(sent, redis.Z{Score: float64(now.UnixMicro()) - float64(i+5)*1.003e6, Member: fmt.Sprintf("a-long-id-of-%012d", i)})
	}
	for key, entries := range map[string][]redis.Z{"sent": sent, "sent:" + category: sent, "slots": slots} {
		must(r.t, r.client.ZAdd(r.t.Context(), base+key, entries...).Err())
	}
}
