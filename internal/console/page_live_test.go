package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/watch"
)

// The page begins to watch, and then shows what workers tell.
func TestLive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if text := r.get(http.StatusOK, "/console/live"); !strings.Contains(text, "nothing has been seen yet") || strings.Contains(text, "<table") {
		t.Error(text)
	}
	pauses := pause.NewStore(r.client, "")
	eventually.Holds(t, "the event is shown", func() bool {
		if strings.Contains(r.get(http.StatusOK, "/console/live"), `href="/console/notifications/order-17?app=shop&amp;user=ada"`) {
			return true
		}
		feed := watch.NewFeed()
		feed.Tell(watch.Event{At: time.Now(), State: push.Delivered, ID: "order-17", App: "shop", User: "ada"})
		if in, err := pauses.Tell(t.Context(), feed.Take()); err != nil || !in.Watched {
			t.Fatalf("nobody watches: %+v, %v", in, err)
		}
		return false
	})
	for _, query := range []string{"what=none", "app=" + strings.Repeat("a", 129), "category=" + strings.Repeat("a", 129), "n=1"} {
		r.get(http.StatusBadRequest, "/console/live?"+query)
	}
	if text := r.get(http.StatusOK, "/console/live?what=expired"); strings.Contains(text, "order-17") || !strings.Contains(text, `<option value="expired" selected>`) {
		t.Error(text)
	}
}

func TestViewOfLive(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	seen := watch.Seen{Since: now, Left: 7, Events: []watch.Event{
		{ID: "a", App: "shop", State: push.Delivered, Category: "news", Priority: push.Critical},
		{ID: "b", App: "bank", State: push.Waiting, For: "limit", Reason: "all 10/1h"},
		{ID: "c", App: "shop", State: push.Rejected, Reason: "BadTopic"},
		{ID: "d", App: "shop", State: push.Waiting, For: "provider", Priority: push.Default},
	}}
	for _, c := range []struct {
		filter liveFilter
		all    bool
		want   string
	}{
		{liveFilter{}, true, "d put off/waits/the providers of shop c rejected/fault/BadTopic b put off/waits/a limit of its user: all 10/1h acritical delivered// left 7"},
		{liveFilter{App: "bank"}, true, "b put off/waits/a limit of its user: all 10/1h left 7"},
		{liveFilter{Category: "news"}, true, "acritical delivered// left 7"},
		{liveFilter{What: push.Rejected}, true, "c rejected/fault/BadTopic left 7"},
		{liveFilter{App: "shop"}, false, "d put off/waits/the providers of shop c rejected/fault/BadTopic acritical delivered// left 0"}, // how much others send is not theirs to know
		{liveFilter{App: "mail"}, false, "left 0"},
	} {
		view := viewOfLive(seen, c.filter, c.all, now)
		got := ""
		for _, row := range view.Rows {
			got += fmt.Sprintf("%s%s %s/%s/%s ", row.ID, row.Urgency, row.What, row.Class, row.Why)
		}
		if got += fmt.Sprint("left ", view.Left); got != c.want || !view.Some || int(view.Matching) != len(view.Rows) {
			t.Errorf("%+v, of all %t: %s of %d, want %s", c.filter, c.all, got, view.Matching, c.want)
		}
	}
	for range 200 {
		seen.Events = append(seen.Events, watch.Event{State: push.Delivered})
	}
	if view := viewOfLive(seen, liveFilter{}, true, now); len(view.Rows) != liveRows || view.Matching != 204 {
		t.Errorf("%d rows of %d", len(view.Rows), view.Matching)
	}
}
