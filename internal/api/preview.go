package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/preview"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

// foreseen is the body that asks what an override would do, or its removal. Without a
// level it is about limits.default.
type foreseen struct {
	App      string        `json:"app"`
	User     string        `json:"user"`
	Category string        `json:"category"`
	Quota    string        `json:"quota"`
	Remove   bool          `json:"remove"`
	MinGap   push.Duration `json:"min_gap"`
	Rates    []string      `json:"rates"`
	Exempt   bool          `json:"exempt"`
	Until    time.Time     `json:"until"`
}

// level is whose limits it is about.
func (f *foreseen) level() (limits.Level, error) {
	var faults []fault
	for _, name := range []struct{ is, value string }{{"app", f.App}, {"user", f.User}, {"category", f.Category}} {
		if name.value != "" && !push.ValidName(name.value) {
			faults = append(faults, fault{"/" + name.is, "must be UTF-8 without control characters, of at most " + strconv.Itoa(push.MaxNameBytes) + " bytes"})
		}
	}
	if f.Quota != "" && (f.App != "" || f.User != "" || f.Category != "") {
		faults = append(faults, fault{"/quota", "excludes app, user and category: it is of all that share it"})
	}
	if faults != nil {
		return limits.Level{}, invalid(faults)
	}
	return limits.Level{App: f.App, User: f.User, Category: f.Category, Quota: f.Quota}, nil
}

// previewLimit tells what an override would do, and changes nothing.
func (a *API) previewLimit(ctx context.Context, c *call) (reply, error) {
	var asked foreseen
	if err := push.ParseStrictly(c.body, &asked); err != nil {
		return reply{}, err
	}
	at, err := asked.level()
	if err != nil {
		return reply{}, err
	}
	if err := c.who.OwnsLevel(at, a.o.Quotas()); err != nil {
		return reply{}, err
	}
	at, quota, err := a.configured(c, at)
	if err != nil {
		return reply{}, err
	}
	if asked.Remove {
		return a.previewRemoval(ctx, at, &asked)
	}
	o := limits.Override{Level: at, By: c.who.Name}
	policy := wanted{asked.MinGap, asked.Rates, asked.Exempt, asked.Until}
	if err := policy.override(&o, func() error { return preview.Validate(o, a.o.Overrides.Horizon()) }); err != nil {
		return reply{}, err
	}
	if !o.Until.IsZero() && !o.Until.After(a.o.Limits.Now()) {
		return reply{}, invalid([]fault{{"/until", limits.ErrPast.Error()}})
	}
	if err := checkQuota(quota, o); err != nil {
		return reply{}, err
	}
	told, err := a.o.Preview.Of(ctx, at, &o)
	return reply{http.StatusOK, told}, err
}

func (a *API) previewRemoval(ctx context.Context, at limits.Level, asked *foreseen) (reply, error) {
	if asked.MinGap != 0 || asked.Rates != nil || asked.Exempt || !asked.Until.IsZero() {
		return reply{}, invalid([]fault{{"/remove", "excludes a policy: the one below it would be in force"}})
	}
	there, err := a.o.Overrides.Get(ctx, at)
	if err != nil {
		return reply{}, err
	}
	if there == nil {
		return reply{}, errNoOverride
	}
	told, err := a.o.Preview.Of(ctx, at, nil)
	return reply{http.StatusOK, told}, err
}
