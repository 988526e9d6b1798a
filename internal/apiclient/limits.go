package apiclient

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

const limits = "/v1/limits"

// policy is one in force as the API tells it.
type policy struct {
	MinGap push.Duration   `json:"min_gap"`
	Rates  []throttle.Rate `json:"rates"`
	Exempt bool            `json:"exempt"`
	Source throttle.Source `json:"source"`
	Until  time.Time       `json:"until"`
}

func (p policy) ruling() throttle.Ruling {
	r := throttle.Ruling{Policy: throttle.Policy{MinGap: time.Duration(p.MinGap), Rates: p.Rates, Exempt: p.Exempt}, Source: p.Source, Until: p.Until}
	if r.Source == "" {
		r.Source = throttle.FromConfiguration
	}
	return r
}

// level is the path of a user's limits, a category's, or a user's in a category.
func level(user, category string) string {
	path := limits
	if user != "" {
		path += "/users" + segment(user)
	}
	if category != "" {
		path += "/categories" + segment(category)
	}
	return path
}

// InForce answers the general policy in force for the user ("" for one without
// overrides), and the category's.
func (c *Client) InForce(ctx context.Context, user, category string) (general, own throttle.Ruling, err error) {
	var answer struct {
		General    policy `json:"general"`
		OfCategory policy `json:"of_category"`
		Default    policy `json:"default"` // where nobody is named
	}
	if err := c.call(ctx, http.MethodGet, level(user, category), nil, &answer); err != nil {
		return throttle.Ruling{}, throttle.Ruling{}, err
	}
	if user == "" && category == "" {
		return answer.Default.ruling(), throttle.Ruling{Source: throttle.FromConfiguration}, nil
	}
	return answer.General.ruling(), answer.OfCategory.ruling(), nil
}

// Horizon is not known here: the API holds every policy against it.
func (c *Client) Horizon() time.Duration { return math.MaxInt64 }

// SetOverride puts the override in force, and answers the one that stands. By is
// not used: who sets it is the token's name. Its error may be
// throttle.ErrTooManyOverrides.
func (c *Client) SetOverride(ctx context.Context, o throttle.Override) (throttle.Override, error) {
	body := struct {
		MinGap push.Duration   `json:"min_gap,omitzero"`
		Rates  []throttle.Rate `json:"rates,omitempty"`
		Exempt bool            `json:"exempt,omitempty"`
		Until  time.Time       `json:"until,omitzero"`
	}{push.Duration(o.Policy.MinGap), o.Policy.Rates, o.Policy.Exempt, o.Until}
	var answer struct {
		Override throttle.Override `json:"override"`
	}
	err := c.call(ctx, http.MethodPut, level(o.User, o.Category), body, &answer)
	if is(err, http.StatusConflict) {
		err = throttle.ErrTooManyOverrides
	}
	return answer.Override, err
}

// UnsetOverride removes the override of the user, the category, or the user in
// the category, and answers whether there was one. By is not used.
func (c *Client) UnsetOverride(ctx context.Context, user, category, _ string) (bool, error) {
	err := c.call(ctx, http.MethodDelete, level(user, category), nil, nil)
	if is(err, http.StatusNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Overrides calls f with each override, in no order, until f answers false.
func (c *Client) Overrides(ctx context.Context, f func(throttle.Override) bool) error {
	var answer struct {
		Overrides []throttle.Override `json:"overrides"`
	}
	if err := c.call(ctx, http.MethodGet, limits, nil, &answer); err != nil {
		return err
	}
	for _, o := range answer.Overrides {
		if !f(o) {
			return nil
		}
	}
	return nil
}

// Import sets the overrides one by one.
func (c *Client) Import(ctx context.Context, all []throttle.Override) error {
	for i, o := range all {
		if _, err := c.SetOverride(ctx, o); err != nil {
			return fmt.Errorf("%d of %d are set; then: %w", i, len(all), err)
		}
	}
	return nil
}

// maxLog is how much of the log the API tells.
const maxLog = 1000

// LimitsLog answers the newest changes, the newest first, at most so many.
func (c *Client) LimitsLog(ctx context.Context, newest int) ([]throttle.Change, error) {
	if newest > maxLog {
		return nil, errors.New("the API tells the newest " + strconv.Itoa(maxLog) + " changes at most")
	}
	var answer struct {
		Changes []throttle.Change `json:"changes"`
	}
	query := url.Values{"limit": {strconv.Itoa(max(1, newest))}}
	err := c.call(ctx, http.MethodGet, limits+"/log?"+query.Encode(), nil, &answer)
	return answer.Changes, err
}
