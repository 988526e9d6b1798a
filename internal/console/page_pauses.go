package console

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/names"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// pauseFields are the fields that say what is paused; all is for everything.
var pauseFields = []string{"app", "platform", "category", "all"}

// lengths are those that a pause can be given instead of an instant.
var lengths = []string{"30m", "1h", "2h", "8h", "24h"}

// A pausesView is what pauses.html shows.
type pausesView struct {
	Answer     string
	Rows       []pauseRow
	Apps       []string
	Platforms  []push.Platform
	Categories []string
	Lengths    []string
	// Everything says that the visitor may pause everything.
	Everything bool
}

type pauseRow struct {
	pause.Pause
	Why string
	// Mine says that the visitor may end it.
	Mine bool
}

// Everything reports whether it is a pause of all that there is.
func (r pauseRow) Everything() bool { return r.App == "" && r.Platform == "" && r.Category == "" }

func (c *Console) pausesPage(ctx context.Context, v *visit) (page, error) {
	all, err := c.pauses.get(ctx)
	if err != nil {
		return page{}, err
	}
	view := viewOfPauses(v.who.Pauses(all), v.who.Own)
	view.Apps, view.Categories, view.Everything = c.appsOf(v), c.o.Limits.Configured(), v.who.Everybody() == nil
	return page{name: "pauses", title: "Pauses", live: true, data: view}, nil
}

// viewOfPauses makes the page of those in force, of which own returns nil for the apps
// that the visitor changes.
func viewOfPauses(all []pause.Pause, own func(app string) error) pausesView {
	v := pausesView{Answer: "Nothing is paused.", Platforms: []push.Platform{push.APNs, push.FCM}, Lengths: lengths}
	count := map[pause.Kind]int{}
	for _, p := range all {
		count[p.Kind]++
		why := p.Reason
		if p.Error != "" {
			why = p.Reason + ": " + p.Error
		}
		v.Rows = append(v.Rows, pauseRow{p, why, own(p.App) == nil})
	}
	var parts []string
	for _, part := range []struct {
		kind         pause.Kind
		one, several string
	}{{pause.Operator, "pause by an operator", "pauses by operators"}, {pause.Provider, "pause by a provider", "pauses by providers"}, {pause.Trouble, "provider in trouble", "providers in trouble"}} {
		if n := count[part.kind]; n > 0 {
			parts = append(parts, counted(n, part.one, part.several))
		}
	}
	if len(parts) > 0 {
		v.Answer = strings.Join(parts, ", ") + "."
	}
	return v
}

var (
	errPauseWhat    = &fault{http.StatusBadRequest, "Say what to pause", "Choose an app, a platform, a category or several of them; or everything, and none of these. Nothing was changed."}
	errPauseUntil   = &fault{http.StatusBadRequest, "Say when it ends", "Give a length or an instant such as 2026-12-24T20:00:00Z, not both; or neither. Nothing was changed."}
	errPauseOver    = &fault{http.StatusConflict, "It would be over already", "The instant has passed. Nothing was changed."}
	errPauseTooMany = &fault{http.StatusConflict, "Too many pauses", "End some of them first. Nothing was changed."}
	errPauseFields  = &fault{http.StatusBadRequest, "The form is not well formed", "An app, a category and a reason are UTF-8 without control characters, a reason has at most 512 bytes; the platform is one of ours, and the app of the configuration. Nothing was changed."}
	errNoPause      = &fault{http.StatusNotFound, "There is no such pause", "It has ended, and no provider of that is in trouble. Nothing was changed."}
)

// pauseOf reads what the form selects, which the visitor may change.
func pauseOf(v *visit) (pause.Pause, error) {
	p := pause.Pause{By: v.who.Name}
	var platform, all string
	for i, to := range []*string{&p.App, &platform, &p.Category, &all} {
		value, err := one(v.form, pauseFields[i], push.MaxNameBytes)
		if err != nil {
			return p, errPauseFields
		}
		*to = value
	}
	p.Platform = push.Platform(platform)
	some := p.App != "" || p.Platform != "" || p.Category != ""
	switch {
	case all != "" && all != "yes", some == (all == "yes"):
		return p, errPauseWhat
	case p.Validate() != nil:
		return p, errPauseFields
	}
	return p, v.who.Own(p.App)
}

// untilOf reads when it ends; zero for never.
func untilOf(form url.Values, now time.Time) (time.Time, error) {
	length, err1 := one(form, "for", 16)
	until, err2 := one(form, "until", 64)
	switch {
	case err1 != nil, err2 != nil, length != "" && until != "", length != "" && !slices.Contains(lengths, length):
		return time.Time{}, errPauseUntil
	case length != "":
		d, _ := time.ParseDuration(length) // one of ours
		return now.Add(d).UTC().Truncate(time.Second), nil
	case until == "":
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, until)
	if err != nil {
		return time.Time{}, errPauseUntil
	}
	return at.UTC(), nil
}

// beginPause begins a pause, or changes the one of the same, once that is confirmed.
func (c *Console) beginPause(ctx context.Context, v *visit) (page, error) {
	p, err := pauseOf(v)
	if err != nil {
		return page{}, err
	}
	if p.App != "" && c.o.Apps.Fault(p.App) != "" {
		return page{}, errPauseFields
	}
	if p.Until, err = untilOf(v.form, time.Now()); err != nil {
		return page{}, err
	}
	if p.Reason, err = one(v.form, "reason", 512); err != nil || p.Validate() != nil {
		return page{}, errPauseFields
	}
	if !v.confirmed() {
		return c.askPause(ctx, v, p)
	}
	switch err := c.o.Control.Pause(ctx, p); {
	case errors.Is(err, pause.ErrOver):
		return page{}, errPauseOver
	case errors.Is(err, pause.ErrTooMany):
		return page{}, errPauseTooMany
	case err != nil:
		return page{}, err
	}
	c.pauses.forget()
	c.log.Info("a pause is begun", "by", v.who.Name, "remote", v.RemoteAddr)
	return page{to: Path + "pauses?done=paused&n=1"}, nil
}

// askPause says what a pause will keep.
func (c *Console) askPause(ctx context.Context, v *visit, p pause.Pause) (page, error) {
	list, err := c.o.Control.Pauses(ctx)
	if err != nil {
		return page{}, err
	}
	asked := confirmation{Facts: factsOfPause(p), Button: "Pause", Back: Path + "pauses", Fields: []field{{"for", ""}, {"until", ""}}}
	sentence := "All workers keep on the queue what is for all of these"
	if p.App == "" && p.Platform == "" && p.Category == "" {
		sentence = "All workers keep everything on the queue, of every app"
	}
	if p.Until.IsZero() {
		sentence += ", until the pause is ended."
	} else {
		sentence += ", until the instant below."
		asked.Fields[1].Value = p.Until.Format(time.RFC3339)
	}
	asked.Sentences = []string{sentence}
	if p.Platform == "" { // which the queue is not searched for
		n, err := c.countWaiting(ctx, p, func(control.Queued) bool { return true })
		if err != nil {
			return page{}, err
		}
		asked.Sentences = append(asked.Sentences, n+" now that match.")
	}
	if slices.ContainsFunc(list, func(s pause.Pause) bool { return s.Kind == pause.Operator && control.Resumes(p, s) }) {
		asked.Sentences = append(asked.Sentences, "The same is paused already: this takes the place of that pause, and the time since when it is paused, its end and its reason are those of this one.")
	}
	if p.Category != "" && names.CategoryWarning(p.Category, c.o.Limits.Configured()) != "" {
		asked.Sentences = append(asked.Sentences, "The configuration has no category of that name.")
	}
	return confirm(v, "Pause", asked), nil
}

func factsOfPause(p pause.Pause) []field {
	facts := []field{{"App", p.App}, {"Platform", string(p.Platform)}, {"Category", p.Category}, {"Reason", p.Reason}}
	if !p.Until.IsZero() {
		facts = append(facts, field{"Until", p.Until.UTC().Format("2006-01-02 15:04:05") + " UTC"})
	}
	return facts
}

// countWaiting says how many wait of what a pause matches, platforms aside, within a
// second.
func (c *Console) countWaiting(ctx context.Context, p pause.Pause, counts func(control.Queued) bool) (string, error) {
	found, err := c.look(ctx, control.Selection{App: p.App, Category: p.Category}, "", math.MaxInt, countMost, time.Second)
	if err != nil {
		return "", err
	}
	n := len(slices.DeleteFunc(found.rows, func(q control.Queued) bool { return !counts(q) }))
	switch {
	case found.next != "" && n == 0:
		return "It is not known how many notifications wait", nil
	case found.next != "":
		return "At least " + counted(n, "notification waits", "notifications wait"), nil
	}
	return counted(n, "notification waits", "notifications wait"), nil
}

// endPause ends what keeps on the queue what the form selects, once that is confirmed.
func (c *Console) endPause(ctx context.Context, v *visit) (page, error) {
	p, err := pauseOf(v)
	if err != nil {
		return page{}, err
	}
	list, err := c.o.Control.Pauses(ctx)
	if err != nil {
		return page{}, err
	}
	list = slices.DeleteFunc(list, func(s pause.Pause) bool { return !control.Resumes(p, s) })
	if len(list) == 0 {
		return page{}, errNoPause
	}
	if !v.expects(len(list)) {
		return c.askEnd(ctx, v, p, list)
	}
	ended, err := c.o.Control.Resume(ctx, p)
	if err != nil {
		return page{}, err
	}
	c.pauses.forget()
	c.log.Info("pauses are ended", "by", v.who.Name, "remote", v.RemoteAddr, "pauses", len(ended))
	return page{to: address(Path+"pauses", field{"done", "resumed"}, field{"n", words.Grouped(len(ended))})}, nil
}

// askEnd says which pauses will end, and what they keep.
func (c *Console) askEnd(ctx context.Context, v *visit, p pause.Pause, list []pause.Pause) (page, error) {
	asked := confirmation{
		Sentences: []string{counted(len(list), "pause ends", "pauses end") + ": what is kept comes back within seconds, and is held to its limits."},
		Expect:    len(list), Button: "End " + words.Grouped(len(list)), Back: Path + "pauses",
	}
	kept, operators := 0, false
	for _, s := range list {
		asked.Things = append(asked.Things, s.String())
		kept, operators = kept+s.Waiting, operators || s.Kind == pause.Operator
	}
	if kept > 0 {
		asked.Sentences = append(asked.Sentences, "About "+counted(kept, "notification waits", "notifications wait")+" for providers.")
	}
	if operators {
		n, err := c.countWaiting(ctx, p, func(q control.Queued) bool { return q.For == control.ForPause })
		if err != nil {
			return page{}, err
		}
		asked.Sentences = append(asked.Sentences, n+" for the end of an operator's pause, of that app and category.")
	}
	return confirm(v, "End "+cmp.Or(map[bool]string{true: "a pause"}[len(list) == 1], "pauses"), asked), nil
}
