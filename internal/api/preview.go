package api

import (
	"context"
	"net/http"
	"time"

	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

// leveled is an override with its level: in an import, where it may be a mute, or for a
// preview, which may be of its removal, and is about limits.default without a level.
type leveled struct {
	App      string        `json:"app"`
	User     string        `json:"user"`
	Category string        `json:"category"`
	Quota    string        `json:"quota"`
	Remove   bool          `json:"remove"`
	MinGap   push.Duration `json:"min_gap"`
	Rates    []string      `json:"rates"`
	Quiet    []string      `json:"quiet_hours"`
	Exempt   bool          `json:"exempt"`
	Mute     bool          `json:"mute"`
	All      bool          `json:"all"`
	Until    *time.Time    `json:"until"`
}

// level is whose limits it is about.
func (f *leveled) level() (limits.Level, error) {
	var faults []fault
	for _, name := range []struct{ is, value string }{{"app", f.App}, {"user", f.User}, {"category", f.Category}} {
		if wrong := names.Fault(name.value, push.MaxNameBytes); wrong != "" {
			faults = append(faults, fault{"/" + name.is, wrong})
		}
	}
	if f.Quota != "" && (f.App != "" || f.User != "" || f.Category != "") {
		faults = append(faults, fault{"/quota", "excludes app, user and category: it is of all that share it"})
	}
	if faults != nil {
		return limits.Level{}, invalid(faults)
	}
	return limits.Level{App: f.App, User: f.User, Category: f.Category, Quota: f.Quota, Mute: f.Mute}, nil
}

func (f *leveled) policy() *wanted {
	return &wanted{f.MinGap, f.Rates, f.Quiet, f.Exempt, f.All, f.Until}
}

// previewLimit tells what an override would do, or its removal, and changes nothing.
func (a *API) previewLimit(ctx context.Context, c *call) (reply, error) {
	var asked leveled
	if err := strictjson.Parse(c.body, &asked); err != nil {
		return reply{}, err
	}
	at, err := asked.level()
	if err != nil {
		return reply{}, err
	}
	if asked.Mute || asked.All {
		return reply{}, invalid([]fault{{"/mute", "has no preview: GET /v1/waiting?mutable=true lists what it would end"}})
	}
	policy := asked.policy()
	var o *limits.Override
	switch {
	case !asked.Remove:
		override, err := policy.override(at)
		if err != nil {
			return reply{}, err
		}
		o = &override
	case policy.MinGap != 0 || policy.Rates != nil || policy.Quiet != nil || policy.Exempt || policy.Until != nil:
		return reply{}, invalid([]fault{{"/remove", "excludes a policy: the one below it would be in force"}})
	}
	told, err := c.as.Preview(ctx, at, o)
	return reply{http.StatusOK, told}, inBody(err)
}
