package worker

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

func TestAnswered(t *testing.T) {
	t.Parallel()
	const most = 2 * time.Second
	plain := step{do: ask, ahead: most}
	renewed := step{do: ask, ahead: most, renews: true, inside: true}
	handedBack := step{do: ask, ahead: most, renews: true, gives: true, inside: true}
	deferred := func(left time.Duration) throttle.Decision {
		return throttle.Decision{Status: throttle.Deferred, Left: left}
	}
	granted := func(left time.Duration) throttle.Decision {
		return throttle.Decision{Status: throttle.Granted, Left: left}
	}
	full := deferred(time.Second)
	full.Full = true
	for name, c := range map[string]struct {
		visit  visit
		asked  step
		answer throttle.Decision
		want   step
	}{
		"granted":                             {visit{asks: 1}, plain, granted(0), step{do: enter}},
		"granted ahead":                       {visit{asks: 1}, plain, granted(time.Second), step{do: enter, after: time.Second}},
		"granted at the last ask":             {visit{asks: maxAsks}, plain, granted(0), step{do: enter}},
		"refused":                             {visit{asks: 1}, plain, throttle.Decision{Status: throttle.Refused}, step{do: putOff}},
		"deferred, near":                      {visit{asks: 1}, plain, deferred(time.Second), step{do: ask, after: time.Second - beforeSlot, ahead: most}},
		"deferred, near, where many wait":     {visit{asks: 1, full: true}, plain, deferred(time.Second), step{do: putOff}},
		"deferred, far":                       {visit{asks: 1}, plain, deferred(most + 1), step{do: putOff}},
		"deferred without a slot":             {visit{asks: 1}, plain, full, step{do: putOff}},
		"deferred, at the last ask":           {visit{asks: maxAsks}, plain, deferred(time.Second), step{do: putOff}},
		"renewed, granted now":                {visit{asks: 2}, renewed, granted(tooLate - 1), step{do: depart, after: tooLate - 1, inside: true}},
		"renewed, granted later":              {visit{asks: 2}, renewed, granted(tooLate), step{do: enter, after: tooLate}},
		"renewed, deferred":                   {visit{asks: 2}, renewed, deferred(time.Second), handedBack},
		"renewed, deferred, where many wait":  {visit{asks: 2, full: true}, renewed, deferred(time.Second), handedBack},
		"handed back, granted now":            {visit{asks: 3}, handedBack, granted(0), step{do: depart, inside: true}},
		"handed back, deferred, near":         {visit{asks: 3}, handedBack, deferred(time.Second), step{do: ask, after: time.Second - beforeSlot, ahead: most}},
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
	again := step{do: ask, ahead: time.Second, renews: true, inside: true}
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
