package console

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

// inForce returns the pauses in force.
func (r *rig) inForce() []pause.Pause {
	r.t.Helper()
	all, err := r.setting.Work.Inspect.Pauses(r.t.Context())
	must(r.t, err)
	return all
}

// A pause is set with the confirmed selection, end and reason. The form shows how many
// notifications match. The same selection replaces the pause, and the same form ends it.
func TestPauseAndEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const at = "/console/pauses"
	text := r.get(http.StatusOK, at)
	contains(t, text, "Nothing is paused.")
	for _, p := range push.PlatformsAndServices() {
		contains(t, text, "<option>"+string(p)+"</option>")
	}
	r.enqueue(toUser("one", "ada", "news"), toUser("two", "ada", "news"), toUser("three", "ada", "orders"))
	asked := r.post(http.StatusOK, at, url.Values{"app": {"shop"}, "category": {"news"}, "for": {"2h"}, "reason": {"the fair"}})
	contains(t, asked, "2 notifications wait now that match.", "Category news is not configured", "the fair")
	form := hidden(t, asked)
	until, err := time.Parse(time.RFC3339, form.Get("until"))
	if left := time.Until(until); err != nil || left > 2*time.Hour || left < 2*time.Hour-time.Minute {
		t.Errorf("until %q, %v", form.Get("until"), err)
	}
	if len(r.inForce()) > 0 {
		t.Error("it is paused before that is confirmed")
	}
	text = r.get(http.StatusOK, r.post(http.StatusSeeOther, at, form))
	contains(t, text, "1 pause by an operator.", "the fair", ">local<", "Paused.", `<td class="num">2</td>`)
	all := r.inForce()
	if len(all) != 1 || all[0].App != "shop" || all[0].Category != "news" || all[0].Reason != "the fair" || all[0].By != "local" || !all[0].Until.Equal(until) {
		t.Fatalf("%+v", all)
	}
	asked = r.post(http.StatusOK, at, url.Values{"app": {"shop"}, "category": {"news"}, "until": {"2099-01-01T00:00:00Z"}})
	contains(t, asked, "Already paused. This replaces the existing pause")
	r.post(http.StatusSeeOther, at, hidden(t, asked))
	if all = r.inForce(); len(all) != 1 || all[0].Until.Year() != 2099 || all[0].Reason != "" {
		t.Fatalf("%+v", all)
	}

	for _, id := range []string{"one", "two"} {
		r.returnJob(id, "the provider is paused", time.Now().Add(time.Hour), nil)
	}
	end := url.Values{"app": {"shop"}, "category": {"news"}}
	asked = r.post(http.StatusOK, at+"/end", end)
	contains(t, asked, "1 pause ends", "About 2 notifications wait for that.")
	if len(r.inForce()) != 1 {
		t.Error("it is ended before that is confirmed")
	}
	contains(t, r.get(http.StatusOK, r.post(http.StatusSeeOther, at+"/end", hidden(t, asked))), "1 ended.", "Nothing is paused.")
	if all = r.inForce(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	r.post(http.StatusNotFound, at+"/end", end)
	contains(t, r.post(http.StatusBadRequest, at, url.Values{"app": {"shop"}, "platform": {"x"}}), "The platform must be apns, fcm or webpush")
	contains(t, r.post(http.StatusBadRequest, at, url.Values{}), `<a href="/console/pauses">Back to the form</a>`)
}

// Ending a pause of an app also ends its providers' pauses. The visitor must confirm again if
// there are more pauses than shown.
func TestEndingPauseOfAppEndsPausesOfItsProviders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	store := pause.NewStore(r.client, "")
	ctx := t.Context()
	must(t, store.Begin(ctx, &pause.Pause{App: "shop"}))
	asked := r.post(http.StatusOK, "/console/pauses/end", url.Values{"app": {"shop"}})
	_, err := store.Share(ctx, pause.Pause{App: "shop", Platform: push.APNs, Reason: "throttled", Error: "APNs answered <429>", Until: time.Now().Add(time.Hour)})
	must(t, err)
	text := r.get(http.StatusOK, "/console/pauses")
	contains(t, text, "throttled: APNs answered &lt;429&gt;", "1 pause by a provider")
	asked = r.post(http.StatusOK, "/console/pauses/end", hidden(t, asked))
	contains(t, asked, "nothing was done", "2 pauses end")
	if len(r.inForce()) != 2 {
		t.Error("some are ended")
	}
	r.post(http.StatusSeeOther, "/console/pauses/end", hidden(t, asked))
	if all := r.inForce(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// Errors of a form are shown, and no pause begins.
func TestInvalidPauseFormBeginsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, form := range []url.Values{
		{}, {"all": {"yes"}, "app": {"shop"}}, {"all": {"no"}}, {"app": {"none"}}, {"app": {"shop"}, "platform": {"x"}}, {"app": {"shop"}, "reason": {"a\x00"}},
		{"app": {"shop"}, "for": {"1h"}, "until": {"2099-01-01T00:00:00Z"}}, {"app": {"shop"}, "until": {"tomorrow"}}, {"app": {"shop", "shop"}}, {"app": {"shop"}, "by": {"x"}}, {"category": {"news "}},
	} {
		r.post(http.StatusBadRequest, "/console/pauses", form)
		form.Set("confirmed", "yes")
		r.post(http.StatusBadRequest, "/console/pauses", form)
	}
	r.post(http.StatusBadRequest, "/console/pauses", url.Values{"app": {"shop"}, "until": {"2001-01-01T00:00:00Z"}, "confirmed": {"yes"}})
	for _, form := range []url.Values{{}, {"all": {"yes"}, "app": {"shop"}}, {"app": {"shop"}, "reason": {"x"}}} {
		r.post(http.StatusBadRequest, "/console/pauses/end", form)
	}
	if all := r.inForce(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}
