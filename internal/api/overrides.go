package api

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strconv"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

// level reads the level that the query names by app, user, category or quota; with mute=true
// it is the mute of that level.
func level(c *call) (limits.Level, error) {
	l := limits.Level{App: c.query.Get("app"), User: c.query.Get("user"), Category: c.query.Get("category"), Quota: c.query.Get("quota")}
	for _, of := range []string{"app", "user", "category"} {
		if err := checkName(c, of, c.query.Get(of), c.query.Has(of)); err != nil {
			return l, err
		}
	}
	var err error
	l.Mute, err = flag(c.query, "mute")
	return l, err
}

// checkName refuses a name that is not valid, if it is given. DELETE accepts the names that an
// older version accepted.
func checkName(c *call, of, name string, there bool) error {
	rule := names.Fault
	if c.Method == http.MethodDelete {
		rule = names.Text
	}
	wrong := rule(name, push.MaxNameBytes)
	if name == "" {
		wrong = "is empty"
	}
	if there && wrong != "" {
		return &problem{Status: http.StatusBadRequest, Detail: "The " + of + " " + wrong + "."}
	}
	return nil
}

// overrides lists a page of overrides.
func (a *API) overrides(ctx context.Context, c *call) (reply, error) {
	of, err := level(c)
	if err != nil {
		return reply{}, err
	}
	most, err := pageLimit(c)
	if err != nil {
		return reply{}, err
	}
	page, err := c.as.Overrides(ctx, of, c.query.Get("cursor"), most)
	return reply{http.StatusOK, page}, err
}

// override reads the body as an override of the level that the query names.
func override(c *call) (o limits.Override, err error) {
	at, err := level(c)
	if err != nil {
		return o, err
	}
	if err := strictjson.Parse(c.body, &o); err != nil {
		return o, err
	}
	wrong := authorship(&o, "")
	for _, of := range []struct {
		name  string
		there bool
	}{{"app", o.App != ""}, {"user", o.User != ""}, {"category", o.Category != ""}, {"quota", o.Quota != ""}, {"mute", o.Mute}} {
		if of.there {
			wrong = append(wrong, fault{"/" + of.name, "belongs in the query"})
		}
	}
	if wrong != nil {
		return o, invalid(wrong)
	}
	o.Level = at
	return o, nil
}

// authorship returns the faults of an override that has an author or a time: the server sets
// both. at is the override's pointer.
func authorship(o *limits.Override, at string) (wrong []fault) {
	if o.By != "" {
		wrong = append(wrong, fault{at + "/by", "must be left out: it is the name of the token"})
	}
	if !o.At.IsZero() {
		wrong = append(wrong, fault{at + "/at", "must be left out: it is the time of the request"})
	}
	return wrong
}

var errNoLevel = &problem{Status: http.StatusBadRequest, Detail: "The query must have app, user, category or several of them; or quota alone."}

// setOverride puts an override, or a mute, in force.
func (a *API) setOverride(ctx context.Context, c *call) (reply, error) {
	o, err := override(c)
	switch {
	case err != nil:
		return reply{}, err
	case o.Level == limits.Level{Mute: o.Mute}:
		return reply{}, errNoLevel
	}
	set, err := c.as.SetLimit(ctx, o)
	return reply{http.StatusOK, set}, inBody(err)
}

// unsetOverride removes an override, or a mute.
func (a *API) unsetOverride(ctx context.Context, c *call) (reply, error) {
	at, err := level(c)
	switch {
	case err != nil:
		return reply{}, err
	case at == limits.Level{Mute: at.Mute}:
		return reply{}, errNoLevel
	}
	return reply{status: http.StatusNoContent}, c.as.UnsetLimit(ctx, at)
}

// inBody points the faults of an override at its fields in the body.
func inBody(err error) error {
	var all fielderrors.Faults
	if !errors.As(err, &all) {
		return err
	}
	wrong := make([]fault, len(all))
	for i, f := range all {
		switch f.Field {
		case "", "app", "user", "category", "quota", "mute", "by": // not in the body
			wrong[i] = fault{"", fielderrors.Faults{f}.Error()}
		default:
			wrong[i] = fault{"/" + f.Field, f.Problem}
		}
	}
	return invalid(wrong)
}

// previewOverride answers the effect of an override, or of its removal, and changes nothing.
// Without a level it is about limits.default.
func (a *API) previewOverride(ctx context.Context, c *call) (reply, error) {
	o, err := override(c)
	if err != nil {
		return reply{}, err
	}
	wanted := &o
	remove, err := flag(c.query, "remove")
	if err != nil {
		return reply{}, err
	}
	if remove {
		if !reflect.DeepEqual(o, limits.Override{Level: o.Level}) {
			return reply{}, invalid([]fault{{"", "must be {} if the query has remove: without the override, the limits below it would be in force"}})
		}
		wanted = nil
	}
	preview, err := c.as.Preview(ctx, o.Level, wanted)
	return reply{http.StatusOK, preview}, inBody(err)
}

// maxImport bounds the overrides of one request.
const maxImport = 1000

// importOverrides sets overrides: all of them, or none if one is not valid. A dry run only
// validates them.
func (a *API) importOverrides(ctx context.Context, c *call) (reply, error) {
	dry, err := flag(c.query, dryRun)
	if err != nil {
		return reply{}, err
	}
	var body struct {
		Overrides []limits.Override `json:"overrides"`
	}
	if err := strictjson.Parse(c.body, &body); err != nil {
		return reply{}, err
	}
	if n := len(body.Overrides); n == 0 || n > maxImport {
		return reply{}, invalid([]fault{{"/overrides", "must hold 1 to " + strconv.Itoa(maxImport) + " overrides"}})
	}
	var wrong []fault
	for i := range body.Overrides {
		wrong = append(wrong, authorship(&body.Overrides[i], "/overrides/"+strconv.Itoa(i))...)
	}
	if wrong != nil {
		return reply{}, invalid(wrong)
	}
	do := c.as.Import
	if dry {
		do = c.as.CheckImport
	}
	err = do(ctx, body.Overrides)
	var faults fielderrors.Faults
	if errors.As(err, &faults) {
		return reply{}, problems.Invalid(problems.At("/overrides/", faults))
	}
	return reply{status: http.StatusNoContent}, err
}

// overridesLog lists the changes of overrides, with their authors.
func (a *API) overridesLog(ctx context.Context, c *call) (reply, error) {
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
