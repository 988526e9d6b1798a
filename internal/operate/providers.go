package operate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/route"
)

// A Provider is one app's route to one push service, as all workers together see it.
type Provider struct {
	App      string        `json:"app"`
	Platform push.Platform `json:"platform"`
	InFlight int           `json:"in_flight"`
	Queued   int           `json:"queued"`
	// Workers is the number of workers that use the provider, and Troubled the number for which
	// it is in trouble or paused.
	Workers  int `json:"workers"`
	Troubled int `json:"troubled"`
	// Shareless is the number of workers without a share of the provider's concurrency.
	Shareless int `json:"shareless,omitempty"`
	// Latency is the slowest worker's latency, and Answers are the sums of all workers.
	Latency route.Latency              `json:"latency,omitzero"`
	Answers map[providers.Reason]int64 `json:"answers,omitempty"`
	// Trouble is the trouble that began first, of all workers.
	Trouble route.Trouble `json:"trouble,omitzero"`
	// Pause is the reason of the pause in force, "" for none, and Until is its end.
	Pause providers.Reason `json:"pause,omitempty"`
	Until time.Time        `json:"until,omitzero"`
	// CredentialEnds is when the first of the credentials in use expires.
	CredentialEnds time.Time `json:"credential_ends,omitzero"`
}

// sumProviders sums the workers' routes to each provider, sorted by app and platform. It leaves
// out idle push services of a platform with several, if the app uses another.
func sumProviders(workers []control.Snapshot) []Provider {
	all := map[[2]string]*Provider{}
	for _, w := range workers {
		for _, r := range w.Routes {
			key := [2]string{r.App, string(r.Platform)}
			p := all[key]
			if p == nil {
				p = &Provider{App: r.App, Platform: r.Platform}
				all[key] = p
			}
			p.add(r)
		}
	}
	list := make([]Provider, 0, len(all))
	used := map[string]bool{} // the apps with a provider that is not spare
	for _, p := range all {
		used[p.App] = used[p.App] || !p.spare()
	}
	for _, p := range all {
		if !used[p.App] || !p.spare() {
			list = append(list, *p)
		}
	}
	slices.SortFunc(list, func(a, b Provider) int {
		return cmp.Or(strings.Compare(a.App, b.App), strings.Compare(string(a.Platform), string(b.Platform)))
	})
	return list
}

// spare reports whether the provider is one of several push services of its platform, works, and is
// idle: no recent answers, nothing queued or in flight.
func (p *Provider) spare() bool {
	return p.Platform != push.PlatformOf(p.Platform) && p.InFlight+p.Queued+p.Troubled+p.Shareless == 0 && len(p.Answers) == 0
}

func (p *Provider) add(r route.Status) {
	p.InFlight += r.InFlight
	p.Queued += r.Queued
	p.Workers++
	if r.Latency.P99 > p.Latency.P99 {
		p.Latency = r.Latency
	}
	for reason, n := range r.Answers {
		if p.Answers == nil {
			p.Answers = map[providers.Reason]int64{}
		}
		p.Answers[reason] += n
	}
	if r.Trouble.Reason != "" || r.Pause != "" {
		p.Troubled++
	}
	if r.Share != nil && *r.Share == 0 {
		p.Shareless++
	}
	if before := p.Trouble.Since; !r.Trouble.Since.IsZero() && (before.IsZero() || r.Trouble.Since.Before(before)) {
		p.Trouble = r.Trouble
	}
	if r.Pause != "" && (p.Pause == "" || r.Until.After(p.Until)) {
		p.Pause, p.Until = r.Pause, r.Until
	}
	if ends := r.CredentialEnds; !ends.IsZero() && (p.CredentialEnds.IsZero() || ends.Before(p.CredentialEnds)) {
		p.CredentialEnds = ends
	}
}
