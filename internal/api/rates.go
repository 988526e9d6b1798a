package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/httplimit"
	"github.com/pushpace/pushpace/throttle/meter"
)

// charge takes cost units of the token's rate, which all processes of the API share. It
// refuses the call if there are not enough.
func (a *API) charge(ctx context.Context, c *call, cost int) error {
	rate := a.o.Tokens.Rate(c.who.Name)
	if rate == nil {
		return nil
	}
	spec := rate.Spec()
	if most := spec.AtOnce(); cost > most {
		return &problem{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("The batch has %d notifications, and the token's rate allows at most %d at once: split it.", cost, most)}
	}
	taken, err := a.o.Meter.Take(ctx, "token/"+throttle.Escape(c.who.Name), spec, meter.Ask{Least: cost, Most: cost})
	if err != nil {
		return err
	}
	d := throttle.Decision{Status: throttle.Granted}
	if taken.Units == 0 {
		d = throttle.Decision{Status: throttle.Deferred, Left: taken.Left, Scope: c.who.Name, Rule: cmp.Or(taken.Rule, spec.Rates[0].String())}
	}
	httplimit.Advertise(c.header, []throttle.Scope{{Name: c.who.Name, Policy: throttle.Policy{Rates: spec.Rates}}}, d)
	if taken.Units == 0 {
		return &problem{Status: http.StatusTooManyRequests, Detail: "The token's rate, " + d.Rule + ", does not allow this now.", RetryAfter: d.Left}
	}
	return nil
}
