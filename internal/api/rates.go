package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/httplimit"
	"github.com/pushpace/pushpace/throttle/meter"
)

// rate is that of the token of this name; nil for none.
func (k *keys) rate(name string) *config.Quota {
	tokens := *k.tokens.Load()
	i := slices.IndexFunc(tokens, func(t config.Token) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return tokens[i].Rate
}

// charge charges the call's token for so many, through all processes of the API, and
// refuses the call where its rate does not allow them.
func (a *API) charge(ctx context.Context, c *call, cost int) error {
	rate := a.keys.rate(c.by)
	if rate == nil {
		return nil
	}
	spec := rate.Spec()
	if most := spec.AtOnce(); cost > most {
		return push.Faults{{Problem: fmt.Sprintf("has %d notifications, and the token's rate allows at most %d at once: split it", cost, most)}}
	}
	taken, err := a.o.Meter.Take(ctx, "token/"+throttle.Escape(c.by), spec, meter.Ask{Least: cost, Most: cost})
	if err != nil {
		return err
	}
	d := throttle.Decision{Status: throttle.Granted}
	if taken.Units == 0 {
		d = throttle.Decision{Status: throttle.Deferred, Left: taken.Left, Scope: c.by, Rule: cmp.Or(taken.Rule, spec.Rates[0].String())}
	}
	httplimit.Advertise(c.header, []throttle.Scope{{Name: c.by, Policy: throttle.Policy{Rates: spec.Rates}}}, d)
	if taken.Units == 0 {
		return &problem{Status: http.StatusTooManyRequests, Detail: "The token's rate, " + d.Rule + ", does not allow this now.", retryAfter: d.Left}
	}
	return nil
}
