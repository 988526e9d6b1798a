package console

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// pauseFields are the fields that select notifications to pause; the field all selects
// everything.
var pauseFields = []string{"app", "platform", "category", "all"}

// lengths are the durations offered for a pause or an override, as an alternative to an end.
var lengths = []string{"30m", "1h", "2h", "8h", "24h", "168h"}

// A pausesView is the data of pauses.html.
type pausesView struct {
	Answer     string
	Rows       []pauseRow
	Apps       []string
	Platforms  []push.Platform
	Categories []string
	Lengths    []string
	// Everything means that the visitor may pause everything.
	Everything bool
}

type pauseRow struct {
	pause.Pause
	Tone  words.Tone
	Count int64 // notifications that wait for the pause
	Why   string
	// Now means that the next probe of the provider is due.
	Now bool
	// Mine means that the visitor may end the pause.
	Mine bool
}

// Everything reports whether the pause covers all apps, platforms and categories.
func (r pauseRow) Everything() bool { return r.App == "" && r.Platform == "" && r.Category == "" }

func (c *Console) pausesPage(ctx context.Context, v *visit) (page, error) {
	all, err := v.as.Pauses(ctx)
	if err != nil {
		return page{}, err
	}
	view := viewOfPauses(all, time.Now(), v.as.OwnsPause)
	view.Apps, view.Categories, view.Everything = v.as.Apps(), v.as.Categories(), v.as.SeesAll()
	return page{name: "pauses", title: "Pauses", live: true, data: view}, nil
}

// viewOfPauses makes the page of the pauses in force; owns reports whether the visitor may end
// a pause.
func viewOfPauses(all []pause.Pause, now time.Time, owns func(pause.Pause) bool) pausesView {
	v := pausesView{Answer: words.SayPauses(all), Platforms: push.PlatformsAndServices(), Lengths: lengths}
	for i := range all {
		p := &all[i]
		v.Rows = append(v.Rows, pauseRow{*p, words.PauseTone(p, now, true), int64(p.Waiting), words.Because(p), p.Kind == pause.Trouble && !p.Until.After(now), owns(*p)})
	}
	return v
}

var (
	errPauseWhat  = &fault{http.StatusBadRequest, "Say what to pause", "Choose an app, a platform, a category or several of them; or everything, and none of these. Nothing was changed."}
	errPauseUntil = &fault{http.StatusBadRequest, "Say when it ends", "Give a length or an instant such as 2026-12-24T20:00:00Z, not both; or neither. Nothing was changed."}
)

// pauseOf parses the selection of the form.
func pauseOf(v *visit) (p pause.Pause, err error) {
	if err := checkNames(v.form); err != nil {
		return p, err
	}
	var platform, all string
	for i, to := range []*string{&p.App, &platform, &p.Category, &all} {
		value, err := one(v.form, pauseFields[i], push.MaxNameBytes)
		if err != nil {
			return p, err
		}
		*to = value
	}
	p.Platform = push.Platform(platform)
	some := p.App != "" || p.Platform != "" || p.Category != ""
	if all != "" && all != "yes" || some == (all == "yes") {
		return p, errPauseWhat
	}
	return p, nil
}

// untilOf parses the end of a pause; the zero time means no end.
func untilOf(form url.Values, now time.Time) (time.Time, error) {
	length, err1 := one(form, "for", 16)
	until, err2 := one(form, "until", 64)
	end, wrong := operate.Ending(length, inRFC3339(until), now)
	if err1 != nil || err2 != nil || wrong != nil {
		return end, errPauseUntil
	}
	return end, nil
}

// inRFC3339 converts the value of a browser's datetime field to RFC 3339, in UTC if no script has
// added a zone. It returns any other text unchanged.
func inRFC3339(text string) string {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Format(time.RFC3339)
		}
	}
	return text
}

// beginPause sets a pause, or replaces the pause with the same selection, once it is confirmed.
func (c *Console) beginPause(ctx context.Context, v *visit) (page, error) {
	p, err := pauseOf(v)
	if err != nil {
		return page{}, err
	}
	if err := v.as.MayPause(p); err != nil {
		return page{}, err
	}
	if p.Until, err = untilOf(v.form, time.Now()); err != nil {
		return page{}, err
	}
	if p.Reason, err = one(v.form, "reason", 4096); err == nil {
		err = p.Validate()
	}
	if err != nil {
		return page{}, err
	}
	if !v.confirmed() {
		return askPause(ctx, v, p)
	}
	if _, err := v.as.Pause(ctx, p); err != nil {
		return page{}, err
	}
	return page{to: Path + "pauses?done=paused&n=1"}, nil
}

// askPause describes the pause and counts the notifications that match it.
func askPause(ctx context.Context, v *visit, p pause.Pause) (page, error) {
	list, err := v.as.PausesNow(ctx)
	if err != nil {
		return page{}, err
	}
	asked := confirmation{Facts: factsOfPause(p), Button: "Pause notifications", Back: Path + "pauses", Fields: []field{{"for", ""}, {"until", ""}}}
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
	if p.Platform == "" { // the queue cannot be searched by platform
		n, err := countWaiting(ctx, v, p)
		if err != nil {
			return page{}, err
		}
		asked.Sentences = append(asked.Sentences, n+" now that match.")
	}
	if slices.ContainsFunc(list, func(s pause.Pause) bool { return s.Kind == pause.Operator && control.Resumes(p, s) }) {
		asked.Sentences = append(asked.Sentences, "Already paused. This replaces the existing pause, including its start, end and reason.")
	}
	if warning := operate.CategoryWarning(p.Category, v.as.Categories()); warning != "" {
		asked.Sentences = append(asked.Sentences, strings.ToUpper(warning[:1])+warning[1:]+".")
	}
	return confirm(v, "Pause", asked), nil
}

func factsOfPause(p pause.Pause) []fact {
	return append(texts("App", p.App, "Platform", string(p.Platform), "Category", p.Category, "Reason", p.Reason), fact{"Until", words.Say(p.Until)})
}

// countWaiting counts the waiting notifications that match a pause, ignoring its platform, within
// a second.
func countWaiting(ctx context.Context, v *visit, p pause.Pause) (string, error) {
	found, err := v.search(ctx, inspect.Selection{App: p.App, Category: p.Category}, "", math.MaxInt, countMost, time.Second)
	if err != nil {
		return "", err
	}
	return upper(words.Waitings(len(found.rows), found.more())), nil
}

// endPause ends the pauses that the form selects, once they are confirmed.
func (c *Console) endPause(ctx context.Context, v *visit) (page, error) {
	p, err := pauseOf(v)
	if err != nil {
		return page{}, err
	}
	list, err := v.as.Ending(ctx, p)
	if err != nil {
		return page{}, err
	}
	if !v.expects(len(list)) {
		return askEnd(v, list), nil
	}
	ended, err := v.as.Resume(ctx, p)
	if err != nil {
		return page{}, err
	}
	return page{to: address(Path+"pauses", field{"done", "resumed"}, field{"n", words.Grouped(len(ended))})}, nil
}

// askEnd lists the pauses that will end, and counts the notifications that wait for them.
func askEnd(v *visit, list []pause.Pause) page {
	asked := confirmation{
		Sentences: []string{words.Counted(len(list), "pause ends", "pauses end") + ": what is kept comes back within seconds, and is held to its limits."},
		Expect:    len(list), Button: "End " + words.Counted(len(list), "pause", "pauses"), Back: Path + "pauses",
	}
	kept := 0
	for _, s := range list {
		asked.Things = append(asked.Things, words.Pause(&s, time.Now()))
		kept += s.Waiting
	}
	if kept > 0 {
		asked.Sentences = append(asked.Sentences, "About "+words.Counted(kept, "notification waits", "notifications wait")+" for that.")
	}
	return confirm(v, "End "+cmp.Or(map[bool]string{true: "a pause"}[len(list) == 1], "pauses"), asked)
}
