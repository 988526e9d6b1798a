package apiclient

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/worker/pause"
)

const pauses = "/v1/pauses"

// selecting returns the path of pauses, with the pause's selection as the query.
func selecting(p pause.Pause) string {
	query := url.Values{}
	for name, value := range map[string]string{"app": p.App, "platform": string(p.Platform), "category": p.Category} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if len(query) == 0 {
		query.Set("all", "true")
	}
	return pauses + "?" + query.Encode()
}

// Pause begins the pause on all workers, and returns it. By is not used: the token's name is the
// operator. Its error may be pause.ErrTooMany.
func (c *Client) Pause(ctx context.Context, p pause.Pause) (begun pause.Pause, err error) {
	body := struct {
		Until  time.Time `json:"until,omitzero"`
		Reason string    `json:"reason,omitempty"`
	}{p.Until, p.Reason}
	err = c.call(ctx, http.MethodPut, selecting(p), body, &begun)
	return begun, err
}

// Resume ends the pauses of this selection, and returns them: see control.Control.Resume. By is
// not used.
func (c *Client) Resume(ctx context.Context, p pause.Pause) ([]pause.Pause, error) {
	var answer struct {
		Ended []pause.Pause `json:"ended"`
	}
	err := c.call(ctx, http.MethodDelete, selecting(p), nil, &answer)
	if errors.Is(err, operate.ErrNoPause) {
		return nil, nil
	}
	return answer.Ended, err
}

// Pauses returns the pauses in force.
func (c *Client) Pauses(ctx context.Context) ([]pause.Pause, error) {
	var answer struct {
		Pauses []pause.Pause `json:"pauses"`
	}
	err := c.call(ctx, http.MethodGet, pauses, nil, &answer)
	return answer.Pauses, err
}
