package console

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	workerroute "github.com/pushpace/pushpace/worker/route"
)

// corpus are malicious or unusual names. If a page treated one as markup, it would have an
// element or attribute called hostile.
var corpus = map[string]string{
	"markup":        `"><hostile src=x onerror=alert(1)></title></script></textarea></pre></svg><script hostile>alert(1)</script>`,
	"attributes":    `' hostile='1' onmouseover='alert(1)" hostile="1" autofocus onfocus="alert(1) hostile=1 onclick=alert(1)`,
	"templates":     `&lt;hostile&gt;&#60;hostile&#62;--><hostile><!--{{.Operator}}{{template "hostile"}}${7*7}<%= 1 %>`,
	"javascript":    `javascript:alert('hostile')//`,
	"network path":  `//hostile.example/%2e%2e/`,
	"climbing":      `../../v1/audit?a&app=hostile&confirmed=yes;b=c#x%0d%0aSet-Cookie:hostile=1`,
	"right to left": "שלום 123 abc ẞ日本語 e\u0301 \U0001f469\u200d\U0001f4bb",
	"unseen":        "\u202egpj.hostile\u202c a\u2066b\u2067c\u2069\u200e\u061c\u200bb\ufeffc\u00add\u2060e",
	"control":       "a\nb\r\nc\u2028d\x1b[31mhostile\x1b]0;x\x07\x00\x7f\u009b",
	"no UTF-8":      "a\xffb\xc3\x28",
	"long":          strings.Repeat("W", 128),
	"blank":         "   ",
}

// unseen reports whether a rune is invisible, or changes the display of other runes.
func unseen(r rune) bool {
	return r != '\n' && r != '\t' && r != '\u200d' && r != '\u200c' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// TestHostileNames sets every text that a producer, a provider or an operator chooses to a text of
// the corpus. It checks each page, its links and the answers to its forms, as an operator and as
// a viewer.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	for name, text := range corpus {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *setting) { hostileOptions(o, text) })
			browsers := map[string]*rig{"viewer": r.as(viewerToken), "operator": r.as(operatorToken)}
			r.writeText(text)
			for who, browser := range browsers {
				c := &crawl{rig: browser, t: t, who: who, name: text, seen: map[string]bool{}, told: map[string]bool{}}
				c.all()
			}
		})
	}
}

// hostileOptions uses the text for all names in the configuration.
func hostileOptions(o *setting, text string) {
	tokens := testTokens()
	for i := range tokens {
		tokens[i].Name = fmt.Sprintf("%.120q", text)[1:] + tokens[i].Name
	}
	tokens[0].Name, tokens[1].Name = text, text+"!"
	o.Tokens.Set(tokens)
	o.Work.Apps = operate.Apps{"shop": {Platforms: []push.Platform{push.APNs, push.FCM}}, text: {Platforms: []push.Platform{push.FCM}}}
	hour := throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}
	o.Work.Limits.SetBase(hour, map[string]throttle.Policy{text: hour})
	o.Work.Quotas = func() (operate.Quotas, error) {
		return operate.Quotas{{Key: "quota/" + text, Name: text, Apps: []string{text, "shop"}, Quota: config.Quota{Rate: throttle.Rate{Count: 100, Period: time.Minute}}}}, nil
	}
}

// fill sets every text in the value to text, with one entry in each list and map.
func fill(v reflect.Value, text string, depth int) {
	if depth > 8 || v.Type() == reflect.TypeFor[time.Time]() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem(), text, depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text, depth+1)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(text))
			return
		}
		one := reflect.New(v.Type().Elem()).Elem()
		fill(one, text, depth+1)
		v.Set(reflect.Append(reflect.Zero(v.Type()), one))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text, depth+1)
		fill(value, text, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() { // other types of text are closed sets
			v.SetString(text)
		}
	}
}

// filledWith returns a value with all its texts set to text.
func filledWith[T any](text string) T {
	var v T
	fill(reflect.ValueOf(&v), text, 0)
	return v
}

// writeText writes the text into all data in Redis that can hold it, bypassing validation.
func (r *rig) writeText(text string) {
	r.t.Helper()
	ctx, o := r.t.Context(), r.setting
	for i, app := range []string{"shop", text} { // texts that producers choose
		n := toUser(fmt.Sprintf("waits-%d", i), text, text)
		n.App, n.Title, n.Body, n.Thread, n.Channel, n.Sound = app, text, text, text, text, text
		if len(text) <= 64 {
			n.CollapseKey = text
		}
		n.Data = map[string]string{text: text}
		for _, n.ID = range []string{n.ID, n.ID + "-more", n.ID + "-most"} {
			copied := *n
			if result := r.producer.EnqueueAll(ctx, []*push.Notification{&copied}); result[0].Err != nil {
				copied = *toUser(n.ID, "ada", "news")
				copied.Title = strings.ToValidUTF8(text, "?")
			}
			r.visitLimits(&copied)
		}
	}
	if id := strings.TrimSpace(text); push.ValidID(id) {
		r.visitLimits(toUser(id, "ada", "news"), toUser(strings.TrimSpace(id[1:]), "ada", "news"))
	}
	for i := range 4 { // a timeline accepts any name
		_, err := r.limiter.Acquire(ctx, throttle.Request{App: "shop", User: text, ID: strings.ToValidUTF8(fmt.Sprintf("%d%.100s", i, text), "?"), Category: text, Scopes: o.Work.Limits.Scopes("shop", text, text), Horizon: 100 * time.Hour})
		must(r.t, err)
	}
	word := strings.Map(func(r rune) rune { // a word of a token, or of a provider
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, text)
	outcomes := []store.TargetOutcome{filledWith[store.TargetOutcome](word), {Platform: push.FCM, Kind: "retry", Reason: "unavailable", TokenEnd: word, ProviderID: text}}
	r.enqueue(toUser("tried", "ada", "news"), toUser("ended", "ada", "news"))
	at := storetest.At(r.t, o.Work.Records, "tried")
	job := storetest.ClaimJob(r.t, r.client, at, push.Default.Queue(), "tried")
	must(r.t, at.PutOff(ctx, job, &store.PutOff{Attempt: &store.Attempt{Number: 1, Outcomes: outcomes, Error: text}}))
	_, err := storetest.At(r.t, o.Work.Records, "ended").Settle(ctx, "ended", &store.End{State: push.Delivered, Outcomes: outcomes, Error: text})
	must(r.t, err)
	r.addLetter(toUser("buried", "ada", "news"), text, time.Now())

	for id, job := range map[string]string{"torn": text, "alien": fmt.Sprintf(`{"v":99,"notification":{"user":%q,"title":%q,"token":%q}}`, text, text, text), text: text} {
		letter := filledWith[store.Letter](text)
		letter.ID, letter.State, letter.Job, letter.At = id, store.Malformed, []byte(job), time.Now()
		must(r.t, storetest.First(r.t, o.Work.Records).SetAside(ctx, &letter))
	}

	pauses := pause.NewStore(r.client, "")
	for _, p := range []pause.Pause{{App: text, Category: text, By: text, Reason: text}, {App: "shop", By: text, Reason: text}, {By: "ada", Reason: text}} {
		_ = pauses.Begin(ctx, &p) // fails for control characters
	}
	provider := filledWith[pause.Pause](text)
	provider.Kind, provider.App, provider.Platform, provider.Until = pause.Provider, "shop", push.APNs, time.Now().Add(time.Hour)
	_, err = pauses.Share(ctx, provider)
	must(r.t, err)

	rate := throttle.Policy{Rates: []throttle.Rate{{Count: 3, Period: time.Hour}}}
	for _, level := range []limits.Level{{App: text}, {User: text}, {App: "shop", User: text}, {Category: text}, {App: text, User: text, Category: text}, {User: "ada"}, {Quota: "quota/" + text}} {
		override := limits.Override{Level: level, Policy: rate, By: text}
		if o.Work.Overrides.Set(ctx, override) == nil { // fails for control characters
			_ = o.Work.Overrides.Set(ctx, override)
			_, _ = o.Work.Overrides.Unset(ctx, limits.Level{User: "ada"}, text)
		}
	}

	for _, action := range auditlog.Actions {
		for _, count := range []int{1, 2} {
			acted := filledWith[auditlog.Entry](text)
			acted.Action, acted.Count, acted.Platform = action, count, push.APNs
			r.act(acted)
		}
	}

	snapshot := filledWith[control.Snapshot](text)
	snapshot.At, snapshot.Started = time.Now(), time.Now()
	for i := range snapshot.Routes {
		snapshot.Routes[i].App = "shop"
	}
	snapshot.Routes = append(snapshot.Routes, filledWith[workerroute.Status](text))
	err = control.PublishSnapshot(ctx, r.client, "", &snapshot)
	must(r.t, err)
	r.client.Persist(ctx, "pushpace:{workers}:"+text)
}
