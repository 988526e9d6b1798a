package apiclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/quiet"
)

const limitsPath = "/v1/limits"

// level is the path of a level's limits.
func level(l limits.Level) string {
	path, mute := limitsPath, ""
	if l.Quota != "" {
		return path + "/quotas" + segment(l.Quota)
	}
	if l.Mute {
		mute = "/mute"
	}
	if l.User != "" {
		path += "/users" + segment(l.User)
	}
	if l.Category != "" {
		path += "/categories" + segment(l.Category)
	}
	switch {
	case l.App == "":
		return path + mute
	case path == limitsPath:
		return path + "/apps" + segment(l.App) + mute
	}
	return path + mute + "?" + url.Values{"app": {l.App}}.Encode()
}

// InForce returns the general policy in force at the level, the category's own, and the mutes
// of all that is sent there.
func (c *Client) InForce(ctx context.Context, at limits.Level) (general, own limits.EffectivePolicy, mutes []limits.EffectiveMute, err error) {
	none := limits.EffectivePolicy{Source: limits.FromConfiguration}
	answer := struct {
		General    limits.EffectivePolicy `json:"general"`
		OfCategory limits.EffectivePolicy `json:"of_category"`
		Default    limits.EffectivePolicy `json:"default"` // where nobody is named
		Mutes      []limits.EffectiveMute `json:"mutes"`
	}{none, none, none, nil}
	if err := c.call(ctx, http.MethodGet, level(at), nil, &answer); err != nil {
		return limits.EffectivePolicy{}, limits.EffectivePolicy{}, nil, err
	}
	if at == (limits.Level{}) {
		return answer.Default, none, nil, nil
	}
	return answer.General, answer.OfCategory, answer.Mutes, nil
}

// Quotas returns what all workers together may do.
func (c *Client) Quotas(ctx context.Context) ([]quotas.Status, error) {
	var answer struct {
		Quotas []quotas.Status `json:"quotas"`
	}
	err := c.call(ctx, http.MethodGet, limitsPath+"/quotas", nil, &answer)
	return answer.Quotas, err
}

// Horizon returns the longest gap or period of an override.
func (c *Client) Horizon(ctx context.Context) (time.Duration, error) {
	var answer struct {
		Horizon push.Duration `json:"horizon"`
	}
	err := c.call(ctx, http.MethodGet, limitsPath+"?limit=1", nil, &answer)
	return time.Duration(answer.Horizon), err
}

// Categories returns those that the configuration has, sorted.
func (c *Client) Categories(ctx context.Context) ([]string, error) {
	var answer struct {
		Categories map[string]limits.EffectivePolicy `json:"categories"`
	}
	err := c.call(ctx, http.MethodGet, limitsPath+"?limit=1", nil, &answer)
	return slices.Sorted(maps.Keys(answer.Categories)), err
}

// wanted is a policy as the API takes it.
type wanted struct {
	MinGap push.Duration   `json:"min_gap,omitzero"`
	Rates  []throttle.Rate `json:"rates,omitempty"`
	Quiet  quiet.Hours     `json:"quiet_hours,omitzero"`
	Exempt bool            `json:"exempt,omitempty"`
	All    bool            `json:"all,omitempty"`
	Until  time.Time       `json:"until,omitzero"`
}

func wantedOf(o limits.Override) wanted {
	return wanted{push.Duration(o.Policy.MinGap), o.Policy.Rates, o.Policy.Quiet, o.Policy.Exempt, o.All, o.Until}
}

// Preview returns what the override would do at the level, or for nil the removal of the
// one there; nil if there is none.
func (c *Client) Preview(ctx context.Context, at limits.Level, o *limits.Override) (*operate.Preview, error) {
	body := struct {
		limits.Level
		wanted
		Remove bool `json:"remove,omitempty"`
	}{Level: at, Remove: o == nil}
	if o != nil {
		body.wanted = wantedOf(*o)
	}
	told := new(operate.Preview)
	err := c.call(ctx, http.MethodPost, limitsPath+"/preview", body, told)
	if o == nil && is(err, http.StatusNotFound) {
		return nil, nil
	}
	return told, err
}

// SetOverride puts the override, or the mute, in force. By is not used. Its error may be
// limits.ErrTooManyOverrides.
func (c *Client) SetOverride(ctx context.Context, o limits.Override) (*operate.Setting, error) {
	set := new(operate.Setting)
	err := c.call(ctx, http.MethodPut, level(o.Level), wantedOf(o), set)
	if is(err, http.StatusConflict) {
		err = limits.ErrTooManyOverrides
	}
	return set, err
}

// UnsetOverride removes the override or mute of the level, and returns whether there was one.
func (c *Client) UnsetOverride(ctx context.Context, at limits.Level) (bool, error) {
	err := c.call(ctx, http.MethodDelete, level(at), nil, nil)
	if is(err, http.StatusNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Overrides calls f with each override once, in no order, until f answers false.
func (c *Client) Overrides(ctx context.Context, f func(limits.Override) bool) error {
	query := url.Values{"limit": {strconv.Itoa(limitsPage)}}
	for seen := map[limits.Level]bool{}; ; {
		var page struct {
			Overrides []limits.Override `json:"overrides"`
			Next      string            `json:"next"`
		}
		if err := c.call(ctx, http.MethodGet, limitsPath+"?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		for _, o := range page.Overrides {
			if !seen[o.Level] && !f(o) {
				return nil
			}
			seen[o.Level] = true
		}
		if page.Next == "" {
			return nil
		}
		query.Set("cursor", page.Next)
	}
}

// CheckImport returns what Import would refuse, and changes nothing.
func (c *Client) CheckImport(ctx context.Context, all []limits.Override) error {
	_, err := c.importAll(ctx, "?dry_run=true", all)
	return err
}

// Import sets the overrides, which are of different levels, once all of them are valid, a
// thousand at a time. By is not used. Its error is a *PartError where some are set; the
// Errors of a Problem in it point at /overrides/N of all.
func (c *Client) Import(ctx context.Context, all []limits.Override) error {
	if len(all) > limitsPage { // else the request checks all of them first
		if err := c.CheckImport(ctx, all); err != nil {
			return err
		}
	}
	done, err := c.importAll(ctx, "", all)
	if done > 0 && err != nil {
		return &PartError{done, len(all), err}
	}
	return err
}

// importAll asks for all of them, and returns how many were answered without an error.
func (c *Client) importAll(ctx context.Context, query string, all []limits.Override) (done int, err error) {
	for some := range slices.Chunk(all, limitsPage) {
		var body struct {
			Overrides []override `json:"overrides"`
		}
		for _, o := range some {
			body.Overrides = append(body.Overrides, override{o.Level, wantedOf(o)})
		}
		err := c.call(ctx, http.MethodPost, limitsPath+"/import"+query, body, nil)
		if is(err, http.StatusConflict) {
			err = limits.ErrTooManyOverrides
		}
		if p := new(Problem); errors.As(err, &p) {
			for i := range p.Errors {
				p.Errors[i].Pointer = shifted(p.Errors[i].Pointer, done)
			}
		}
		if err != nil {
			return done, err
		}
		done += len(some)
	}
	return done, nil
}

// A PartError is what kept an import from the rest, after so many of all were set.
type PartError struct {
	Done, All int
	Err       error
}

// Error implements error.
func (e *PartError) Error() string {
	return fmt.Sprintf("%d of %d are set; then: %v", e.Done, e.All, e.Err)
}

// Unwrap returns what kept it.
func (e *PartError) Unwrap() error { return e.Err }

// shifted is a pointer to an override of a request, in all of which there are so many
// before it.
func shifted(pointer string, before int) string {
	const list = "/overrides/"
	at, field, _ := strings.Cut(strings.TrimPrefix(pointer, list), "/")
	n, err := strconv.Atoi(at)
	if err != nil {
		return pointer
	}
	return strings.TrimSuffix(list+strconv.Itoa(before+n)+"/"+field, "/")
}

// An override is one as the API takes it.
type override struct {
	limits.Level
	wanted
}

// limitsPage is how many overrides or changes of them are asked for at once.
const limitsPage = 1000

// LimitsLog returns the newest changes, the newest first, at most so many.
func (c *Client) LimitsLog(ctx context.Context, newest int) ([]limits.Change, error) {
	return newestOf(ctx, c, limitsPath+"/log", "changes", newest, func(last limits.Change) string { return strconv.FormatInt(last.Version, 10) })
}
