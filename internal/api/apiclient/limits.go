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
	"github.com/pushpace/pushpace/throttle/limits"
)

const (
	limitsPath    = "/v1/limits"
	overridesPath = "/v1/overrides"
)

// ofLevel adds the level to the path, as a query: the level's key is written as one.
func ofLevel(path string, l limits.Level) string {
	return path + "?" + l.Key()
}

// Limits returns the limits in force at the level. The zero level means the configured limits.
func (c *Client) Limits(ctx context.Context, at limits.Level) (*operate.Limits, error) {
	l := new(operate.Limits)
	return l, c.call(ctx, http.MethodGet, ofLevel(limitsPath, at), nil, l)
}

// Quotas returns the limits of all workers together.
func (c *Client) Quotas(ctx context.Context) ([]operate.QuotaStatus, error) {
	var answer struct {
		Quotas []operate.QuotaStatus `json:"quotas"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/quotas", nil, &answer)
	return answer.Quotas, err
}

// Categories returns the configured categories, sorted.
func (c *Client) Categories(ctx context.Context) ([]string, error) {
	l, err := c.Limits(ctx, limits.Level{})
	return slices.Sorted(maps.Keys(l.Categories)), err
}

// Preview returns the effect of an override at the level. A nil override asks for the effect
// of removing the level's override; if there is none, Preview returns nil.
func (c *Client) Preview(ctx context.Context, at limits.Level, o *limits.Override) (*operate.Preview, error) {
	path, body := ofLevel(overridesPath+"/preview", at), limits.Override{}
	if o != nil {
		body = asked(*o, limits.Level{})
	} else {
		path += "&remove=true"
	}
	told := new(operate.Preview)
	err := c.call(ctx, http.MethodPost, path, body, told)
	if o == nil && is(err, http.StatusNotFound) {
		return nil, nil
	}
	return told, err
}

// SetOverride puts the override, or the mute, in force. By and At are not used. Its error
// may be limits.ErrTooManyOverrides.
func (c *Client) SetOverride(ctx context.Context, o limits.Override) (*operate.Setting, error) {
	set := new(operate.Setting)
	err := c.call(ctx, http.MethodPut, ofLevel(overridesPath, o.Level), asked(o, limits.Level{}), set)
	if is(err, http.StatusConflict) {
		err = limits.ErrTooManyOverrides
	}
	return set, err
}

// asked returns the override for a request: with the level, and without author and time, which
// the API sets.
func asked(o limits.Override, at limits.Level) limits.Override {
	o.Level, o.By, o.At = at, "", time.Time{}
	return o
}

// UnsetOverride removes the override or mute of the level, and returns whether there was one.
func (c *Client) UnsetOverride(ctx context.Context, at limits.Level) (bool, error) {
	err := c.call(ctx, http.MethodDelete, ofLevel(overridesPath, at), nil, nil)
	if is(err, http.StatusNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Overrides calls f with each override once, in no order, until f answers false.
func (c *Client) Overrides(ctx context.Context, f func(limits.Override) bool) error {
	query := url.Values{"limit": {strconv.Itoa(limitsPage)}}
	for seen := map[limits.Level]bool{}; ; {
		var page operate.OverridePage
		if err := c.call(ctx, http.MethodGet, overridesPath+"?"+query.Encode(), nil, &page); err != nil {
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

// CheckImport returns the error that Import would return, and changes nothing.
func (c *Client) CheckImport(ctx context.Context, all []limits.Override) error {
	_, err := c.importAll(ctx, "?dry_run=true", all)
	return err
}

// Import checks all overrides, which must be of different levels, and then sets a thousand per
// request. By and At are not used. Its error is a *PartError if some overrides are set; the
// Errors of a Problem point at /overrides/N of the whole list.
func (c *Client) Import(ctx context.Context, all []limits.Override) error {
	if len(all) > limitsPage { // a single request checks all of its overrides first
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

// importAll sends all overrides, and returns the number that the API has accepted.
func (c *Client) importAll(ctx context.Context, query string, all []limits.Override) (done int, err error) {
	for some := range slices.Chunk(all, limitsPage) {
		var body operate.OverridePage
		for _, o := range some {
			body.Overrides = append(body.Overrides, asked(o, o.Level))
		}
		err := c.call(ctx, http.MethodPost, overridesPath+"/import"+query, body, nil)
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

// A PartError ended an import after some of the overrides were set.
type PartError struct {
	Done, All int
	Err       error
}

// Error implements error.
func (e *PartError) Error() string {
	return fmt.Sprintf("%d of %d overrides are set; then: %v", e.Done, e.All, e.Err)
}

// Unwrap returns the cause.
func (e *PartError) Unwrap() error { return e.Err }

// shifted converts a pointer into a request to a pointer into the whole list. offset is the index
// of the request's first override in the list.
func shifted(pointer string, offset int) string {
	const list = "/overrides/"
	at, field, _ := strings.Cut(strings.TrimPrefix(pointer, list), "/")
	n, err := strconv.Atoi(at)
	if err != nil {
		return pointer
	}
	return strings.TrimSuffix(list+strconv.Itoa(offset+n)+"/"+field, "/")
}

// limitsPage is the number of overrides that one request sets or asks for.
const limitsPage = 1000

// LimitsLog returns the changes of overrides, the newest first; newest bounds their number.
func (c *Client) LimitsLog(ctx context.Context, newest int) ([]limits.Change, error) {
	return newestOf(ctx, c, overridesPath+"/log", "changes", newest, func(last limits.Change) string { return strconv.FormatInt(last.Version, 10) })
}
