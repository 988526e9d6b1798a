package worker

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

func TestAnswered(t *testing.T) {
	t.Parallel()
	const most = 2 * time.Second
	plain := step{do: ask}
	renewed := step{do: ask, renews: true, inside: true}
	handedBack := step{do: ask, renews: true, gives: true, inside: true}
	deferred := func(left time.Duration) throttle.Decision {
		return throttle.Decision{Status: throttle.Deferred, Left: left}
	}
	granted := throttle.Decision{Status: throttle.Granted}
	full := deferred(time.Second)
	full.Slotless = true
	for name, c := range map[string]struct {
		visit  visit
		asked  step
		answer throttle.Decision
		want   step
	}{
		"granted":                             {visit{asks: 1}, plain, granted, step{do: enter}},
		"granted at the last ask":             {visit{asks: maxAsks}, plain, granted, step{do: enter}},
		"refused":                             {visit{asks: 1}, plain, throttle.Decision{Status: throttle.Refused}, step{do: putOff}},
		"rejected":                            {visit{asks: 1}, plain, throttle.Decision{Status: throttle.Rejected}, step{do: putOff}},
		"deferred, near":                      {visit{asks: 1}, plain, deferred(time.Second), step{do: ask, after: time.Second}},
		"deferred, near, where many wait":     {visit{asks: 1, full: true}, plain, deferred(time.Second), step{do: putOff}},
		"deferred, far":                       {visit{asks: 1}, plain, deferred(most + 1), step{do: putOff}},
		"deferred without a slot":             {visit{asks: 1}, plain, full, step{do: putOff}},
		"deferred, at the last ask":           {visit{asks: maxAsks}, plain, deferred(time.Second), step{do: putOff}},
		"renewed, granted":                    {visit{asks: 2}, renewed, granted, step{do: depart, inside: true}},
		"renewed, deferred":                   {visit{asks: 2}, renewed, deferred(time.Second), handedBack},
		"renewed, deferred, where many wait":  {visit{asks: 2, full: true}, renewed, deferred(time.Second), handedBack},
		"handed back, granted":                {visit{asks: 3}, handedBack, granted, step{do: depart, inside: true}},
		"handed back, deferred, near":         {visit{asks: 3}, handedBack, deferred(time.Second), step{do: ask, after: time.Second}},
		"handed back, deferred, far":          {visit{asks: 3}, handedBack, deferred(time.Hour), step{do: putOff}},
		"handed back, refused":                {visit{asks: 3}, handedBack, throttle.Decision{Status: throttle.Refused}, step{do: putOff}},
		"handed back, deferred, the last ask": {visit{asks: maxAsks}, handedBack, deferred(time.Second), step{do: putOff}},
	} {
		c.visit.most = most
		if got := c.visit.answered(c.asked, &c.answer); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestEntered(t *testing.T) {
	t.Parallel()
	scopes := func(gap time.Duration) []throttle.Scope {
		return []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{MinGap: gap}}}
	}
	one := scopes(1)
	again := step{do: ask, renews: true, inside: true}
	for name, c := range map[string]struct {
		asks           int
		late           time.Duration
		asked, inForce []throttle.Scope
		want           step
	}{
		"on time":                    {1, tooLate - 1, one, one, step{do: depart, inside: true, late: tooLate - 1}},
		"late":                       {1, tooLate, one, one, again},
		"by other limits":            {1, 0, one, scopes(2), again},
		"by limits that are back":    {1, 0, one, scopes(1), again},
		"exempt":                     {1, time.Hour, nil, nil, step{do: depart, inside: true, late: time.Hour}},
		"exempt by now":              {1, time.Hour, one, nil, step{do: depart, inside: true, late: time.Hour}},
		"limited by now":             {1, 0, nil, one, again},
		"late, and asks are left":    {maxAsks - renewalAsks, tooLate, one, one, again},
		"late, and too few are left": {maxAsks - renewalAsks + 1, tooLate, one, one, step{do: giveUp}},
		"on time at the last ask":    {maxAsks, 0, one, one, step{do: depart, inside: true}},
	} {
		if got := (visit{asks: c.asks, most: time.Second}).entered(c.late, c.asked, c.inForce); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
