package words

import (
	"fmt"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// A Provider is one app's route to one push service.
type Provider struct {
	App, Platform string
	Name          string // "fcm of shop"
	// State describes the provider, and Why the beginning, cause and end of the state.
	State string
	Why   Sentence
	Tone  Tone
	// Pauses describe the operators' pauses that stop all notifications for the provider.
	Pauses           []Sentence
	InFlight, Queued int64
	P50, P99         string
	Answers          []Tally
	// Credential describes how long the first credential is valid, and CredentialEnds is its end.
	Credential     string
	CredentialEnds time.Time
	CredentialTone Tone
}

// credentialSoon is how long before a credential's end its tone becomes Wrong.
const credentialSoon = 14 * 24 * time.Hour

// OfProvider puts a provider into words.
func OfProvider(o *operate.Overview, p *operate.Provider) Provider {
	v := Provider{
		App: p.App, Platform: string(p.Platform), Name: string(p.Platform) + " of " + Printable(p.App), State: "works",
		InFlight: int64(p.InFlight), Queued: int64(p.Queued), P50: Took(p.Latency.P50), P99: Took(p.Latency.P99), Answers: Tallies(p.Answers),
		CredentialEnds: p.CredentialEnds,
	}
	counted := o.NotRead(operate.PartWaits) == ""
	closed := closing(p)
	for i := range o.Pauses {
		switch q := &o.Pauses[i]; {
		case q.Kind != pause.Operator:
			if q.App == p.App && q.Platform == p.Platform && closed != nil && q.Kind == closed.Kind {
				closed.Waiting = q.Waiting
			}
		case q.Category == "" && (q.App == "" || q.App == p.App) && push.Covers(q.Platform, p.Platform):
			v.Pauses = append(v.Pauses, Pause(q, o.At))
			v.State, v.Tone = "paused by an operator", Warns
		}
	}
	switch {
	case closed != nil:
		v.State, v.Why = keeps(closed, o.At, counted)
		v.Tone = PauseTone(closed, o.At, counted)
	case p.Troubled > 0 && v.Tone == Well:
		v.State, v.Tone = "being tried again", Warns
	}
	if p.Troubled > 0 && p.Troubled < p.Workers {
		v.Why = Say(v.Why, fmt.Sprintf(" (for %d of %d workers)", p.Troubled, p.Workers))
	}
	if p.Shareless > 0 {
		v.Why = Say(v.Why, fmt.Sprintf("; %d of %d workers have no share of its concurrency, and leave its jobs on the queue", p.Shareless, p.Workers))
	}
	if left := p.CredentialEnds.Sub(o.At); !p.CredentialEnds.IsZero() {
		switch v.Credential = Span(left); {
		case left <= 0:
			v.Credential, v.CredentialTone = "has ended", Wrong
		case left < credentialSoon:
			v.CredentialTone = Wrong
		}
	}
	return v
}

// Route says why a worker sends nothing to the provider, as Pause does; nil if it is open.
func Route(s *route.Status, now time.Time) Sentence {
	closed := closing(&operate.Provider{App: s.App, Platform: s.Platform, Trouble: s.Trouble, Pause: s.Pause, Until: s.Until})
	if closed == nil {
		return nil
	}
	return Pause(closed, now)
}

// closing is the pause, or the trouble, for which the workers send nothing to the provider; nil
// for none.
func closing(p *operate.Provider) *pause.Pause {
	t := &p.Trouble
	c := &pause.Pause{
		Kind: pause.Trouble, App: p.App, Platform: p.Platform, Reason: string(t.Reason), Error: t.Error, At: t.Since, Until: t.Next, Failures: t.Failures, Answers: t.Answers,
	}
	switch {
	case p.Pause != "":
		c.Kind, c.Reason, c.Until = pause.Provider, string(p.Pause), p.Until
	case t.Since.IsZero():
		return nil
	}
	return c
}

// SayProviders describes the state of all providers together.
func SayProviders(o *operate.Overview) Sentence {
	if why := o.NotRead(operate.PartWorkers); why != "" {
		return Clauses(Say("it is not known which workers run: ", Printable(why)))
	}
	if len(o.Workers) == 0 {
		return Clauses(Say("no worker runs, and nothing is known of the providers"))
	}
	var of [Wrong + 1]int
	for i := range o.Providers {
		of[OfProvider(o, &o.Providers[i]).Tone]++
	}
	all := Counted(len(o.Providers), "provider", "providers")
	var clauses []Sentence
	if of[Wrong] > 0 {
		clauses = append(clauses, Say(Counted(of[Wrong], "of "+all+" is in trouble", "of "+all+" are in trouble")))
	}
	if of[Warns] > 0 {
		clauses = append(clauses, Say(Counted(of[Warns], "of "+all+" is held back", "of "+all+" are held back")))
	}
	if clauses == nil {
		clauses = []Sentence{Say(all + ", and all work")}
	}
	return Clauses(clauses...)
}

// asksForLess are the reasons with which push services ask for fewer pushes: nothing is wrong.
var asksForLess = []providers.Reason{"TooManyRequests", "TooManyProviderTokenUpdates", "QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED", "throttled"}

// ReasonTone returns the tone of a provider that is closed for that reason.
func ReasonTone(reason providers.Reason) Tone {
	if slices.Contains(asksForLess, reason) {
		return Warns
	}
	return Wrong
}

// RouteStates describes the states of a route.
var RouteStates = map[route.State]string{
	route.Open: "open", route.Trying: "trying: one push at a time", route.Closed: "closed: nothing is sent",
}
