package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/faults"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// limits lists them.
func (a *API) limits(ctx context.Context, c *call) (reply, error) {
	most, err := pageLimit(c)
	if err != nil {
		return reply{}, err
	}
	all, err := c.as.Limits(ctx, c.query.Get("cursor"), most)
	return reply{http.StatusOK, all}, err
}

// level is whose limits the path and the query are about.
func level(c *call) (limits.Level, error) {
	l := limits.Level{App: cmp.Or(c.PathValue("app"), c.query.Get("app")), User: c.PathValue("user"), Category: c.PathValue("category"), Quota: c.PathValue("quota"), Mute: strings.HasSuffix(c.Pattern, "/mute")}
	for _, name := range []struct{ is, value string }{{"app", l.App}, {"user", l.User}, {"category", l.Category}} {
		named := strings.Contains(c.Pattern, "{"+name.is+"}") || name.is == "app" && c.query.Has("app")
		rule := names.Fault
		if c.Method == http.MethodDelete { // what an older version took can be removed
			rule = names.Text
		}
		wrong := rule(name.value, push.MaxNameBytes)
		if name.value == "" {
			wrong = "is empty"
		}
		if named && wrong != "" {
			return l, &problem{Status: http.StatusBadRequest, Detail: "The " + name.is + " " + wrong + "."}
		}
	}
	return l, nil
}

// quotas lists what all workers together may do.
func (a *API) quotas(ctx context.Context, c *call) (reply, error) {
	all, err := c.as.Quotas(ctx)
	return reply{http.StatusOK, struct {
		Quotas []quotas.Status `json:"quotas"`
	}{all}}, err
}

// limit shows what is in force.
func (a *API) limit(ctx context.Context, c *call) (reply, error) {
	at, err := level(c)
	if err != nil {
		return reply{}, err
	}
	l, err := c.as.InForce(ctx, at)
	return reply{http.StatusOK, l}, err
}

// wanted is the body that sets an override.
type wanted struct {
	MinGap push.Duration `json:"min_gap"`
	Rates  []string      `json:"rates"`
	Quiet  []string      `json:"quiet_hours"`
	Exempt bool          `json:"exempt"`
	All    bool          `json:"-"` // of a mute
	Until  *time.Time    `json:"until"`
}

// endOf is when something ends whose body says so, zero for never. The zero instant has
// passed, as any early one.
func endOf(until *time.Time) (time.Time, error) {
	switch {
	case until == nil:
		return time.Time{}, nil
	case until.IsZero():
		return time.Time{}, invalid([]fault{{"/until", "has passed"}})
	}
	return *until, nil
}

// setLimit puts an override in force.
func (a *API) setLimit(ctx context.Context, c *call) (reply, error) {
	at, err := level(c)
	if err != nil {
		return reply{}, err
	}
	var w wanted
	if err := strictjson.Parse(c.body, &w); err != nil {
		return reply{}, err
	}
	return a.set(ctx, c, &w, at)
}

// mute mutes.
func (a *API) mute(ctx context.Context, c *call) (reply, error) {
	at, err := level(c)
	if err != nil {
		return reply{}, err
	}
	var m struct {
		All   bool       `json:"all"`
		Until *time.Time `json:"until"`
	}
	if err := strictjson.Parse(c.body, &m); err != nil {
		return reply{}, err
	}
	return a.set(ctx, c, &wanted{All: m.All, Until: m.Until}, at)
}

func (a *API) set(ctx context.Context, c *call, w *wanted, at limits.Level) (reply, error) {
	o, err := w.override(at)
	if err != nil {
		return reply{}, err
	}
	set, err := c.as.SetLimit(ctx, o)
	return reply{http.StatusOK, set}, inBody(err)
}

// override is what is wanted at the level.
func (w *wanted) override(at limits.Level) (limits.Override, error) {
	o := limits.Override{Level: at, All: w.All, Policy: throttle.Policy{MinGap: time.Duration(w.MinGap), Exempt: w.Exempt}}
	var err error
	if o.Until, err = endOf(w.Until); err != nil {
		return o, err
	}
	var wrong []fault
	for i, text := range w.Rates {
		rate, err := throttle.ParseRate(text)
		if err != nil {
			wrong = append(wrong, fault{"/rates/" + strconv.Itoa(i), err.Error()})
		}
		o.Policy.Rates = append(o.Policy.Rates, rate)
	}
	if w.Quiet != nil {
		o.Policy.Quiet = quiet.Hours{}
	}
	for i, text := range w.Quiet {
		window, err := quiet.Parse(text)
		if err != nil {
			wrong = append(wrong, fault{"/quiet_hours/" + strconv.Itoa(i), err.Error()})
		}
		o.Policy.Quiet = append(o.Policy.Quiet, window)
	}
	if len(wrong) > 0 {
		return o, invalid(wrong)
	}
	return o, nil
}

// inBody has the faults of an override be where they stand in the body.
func inBody(err error) error {
	var all faults.Faults
	if !errors.As(err, &all) {
		return err
	}
	wrong := make([]fault, len(all))
	for i, f := range all {
		switch f.Field {
		case "min_gap", "rates", "quiet_hours", "exempt", "all", "until":
			wrong[i] = fault{"/" + f.Field, f.Problem}
		default: // the level, and who sets it, are not in the body
			wrong[i] = fault{"", faults.Faults{f}.Error()}
		}
	}
	return invalid(wrong)
}

// maxImport bounds the overrides of one request.
const maxImport = 1000

// importLimits puts overrides in force, all of them or, where one is not valid, none. A dry
// run validates them alone.
func (a *API) importLimits(ctx context.Context, c *call) (reply, error) {
	dry, err := flag(c.query, dryRun)
	if err != nil {
		return reply{}, err
	}
	var w struct {
		Overrides []leveled `json:"overrides"`
	}
	if err := strictjson.Parse(c.body, &w); err != nil {
		return reply{}, err
	}
	if n := len(w.Overrides); n == 0 || n > maxImport {
		return reply{}, invalid([]fault{{"/overrides", "must hold 1 to " + strconv.Itoa(maxImport) + " overrides"}})
	}
	all := make([]limits.Override, len(w.Overrides))
	var wrong []fault
	for i, one := range w.Overrides {
		at, err := one.level()
		if err == nil && one.Remove {
			err = invalid([]fault{{"/remove", "is for a preview alone"}})
		}
		if err == nil {
			all[i], err = one.policy().override(at)
		}
		if err != nil {
			for _, f := range problemOf(err).Errors {
				wrong = append(wrong, fault{"/overrides/" + strconv.Itoa(i) + f.Pointer, f.Detail})
			}
		}
	}
	if len(wrong) > 0 {
		return reply{}, invalid(wrong)
	}
	do := c.as.Import
	if dry {
		do = c.as.CheckImport
	}
	err = do(ctx, all)
	var faults faults.Faults
	if errors.As(err, &faults) {
		return reply{}, invalid(faultsAt("/overrides/", faults))
	}
	return reply{status: http.StatusNoContent}, err
}

// unsetLimit removes an override, or a mute.
func (a *API) unsetLimit(ctx context.Context, c *call) (reply, error) {
	at, err := level(c)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, c.as.UnsetLimit(ctx, at)
}

// limitsLog tells who changed which limit.
func (a *API) limitsLog(ctx context.Context, c *call) (reply, error) {
	limit, err := pageLimit(c)
	if err != nil {
		return reply{}, err
	}
	before := int64(0)
	if text := c.query.Get("before"); text != "" {
		if before, err = strconv.ParseInt(text, 10, 64); err != nil || before < 1 {
			return reply{}, badQuery("before", "the version of a change")
		}
	}
	changes, err := c.as.LimitsLog(ctx, before, limit)
	return reply{http.StatusOK, struct {
		Changes []limits.Change `json:"changes"`
	}{changes}}, err
}
