package apiclient

import (
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/api/problems"
)

// maxRetryAfter bounds an API's Retry-After.
const maxRetryAfter = 30 * time.Second

// A Problem is the API's answer to a request that failed. Its RetryAfter is 30 s at most.
type Problem = problems.Problem

// problem decodes the answer to a failed request about that ID: it returns the error that the
// answer's code names, else the *Problem.
func (c *Client) problem(status int, header http.Header, answer []byte, id string) error {
	p := &Problem{}
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if kind != problems.Type || json.Unmarshal(answer, p) != nil {
		if status != http.StatusTooManyRequests && status < http.StatusInternalServerError {
			return c.strange(status)
		}
		p = &Problem{} // a proxy in between answered; a retry may succeed
	}
	if known := p.Known(id); known != nil {
		return known
	}
	p.Status, p.Host, p.RetryAfter = status, c.host, retryAfter(header)
	return p
}

// failedOne returns the error of one item of a bulk request.
func (c *Client) failedOne(status int, detail string, header http.Header) error {
	return &Problem{Status: status, Detail: detail, RetryAfter: retryAfter(header), Host: c.host}
}

// strange returns the error about an answer that is not pushpace's.
func (c *Client) strange(status int) error {
	return fmt.Errorf("%s answered %d %s, and not as pushpace's API does: is the URL right?", cmp.Or(c.host, "the API in this process"), status, http.StatusText(status))
}

func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
}

// is reports whether the API answers the error with that status.
func is(err error, status int) bool { return err != nil && problems.Of(err).Status == status }
