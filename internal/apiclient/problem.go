package apiclient

import (
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/push"
)

const problemType = "application/problem+json"

// maxRetryAfter bounds what an API may ask to wait.
const maxRetryAfter = 30 * time.Second

// A Problem is what the API answers in the place of what was asked for.
// Source: RFC 9457.
type Problem struct {
	Status int     `json:"status"`
	Title  string  `json:"title"`
	Detail string  `json:"detail"`
	Errors []fault `json:"errors"`
	// Apps are those that the request has to choose from.
	Apps []string `json:"apps"`
	// Choices are whose notifications, or dead letters, have the ID; they leave it out.
	Choices []push.Ref `json:"choices"`
	// Carries is how many others the push of one that was to be cancelled is to tell of.
	Carries int `json:"carries"`
	// RetryAfter is how long to wait before it is worth to ask again: 0 when the
	// API does not say, 30 s at most.
	RetryAfter time.Duration `json:"-"`

	host string
}

// A fault is one thing that is wrong with a request, at a JSON pointer.
type fault struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// Error names the API, and every fault with its pointer.
func (p *Problem) Error() string {
	var parts []string
	if p.host != "" {
		parts = append(parts, fmt.Sprintf("the API at %s answered %d %s", p.host, p.Status, http.StatusText(p.Status)))
	}
	if p.Detail != "" {
		parts = append(parts, strings.TrimSuffix(p.Detail, "."))
	}
	if len(p.Errors) > 0 {
		parts = append(parts, faults(p.Errors, "").Error())
	}
	text := strings.Join(parts, ": ")
	if p.Status == http.StatusUnauthorized {
		text += ": give its token by --token-file or PUSHPACE_API_TOKEN"
	}
	return text
}

// Again reports whether the same request may be answered otherwise later.
func (p *Problem) Again() bool {
	return p.Status == http.StatusRequestTimeout || p.Status == http.StatusTooManyRequests || p.Status >= http.StatusInternalServerError
}

// faults are a notification's, whose pointers begin where it stands in the body.
func faults(all []fault, at string) push.Faults {
	var f push.Faults
	for _, one := range all {
		f = append(f, push.Fault{Field: strings.TrimPrefix(one.Pointer, at), Problem: one.Detail})
	}
	return f
}

// problem reads an answer that is one.
func (c *Client) problem(status int, header http.Header, answer []byte) error {
	p := &Problem{}
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if kind != problemType || json.Unmarshal(answer, p) != nil {
		if status != http.StatusTooManyRequests && status < http.StatusInternalServerError {
			return c.strange(status)
		}
		p = &Problem{} // from a proxy in between, which may be over it later
	}
	p.Status, p.host, p.RetryAfter = status, c.host, retryAfter(header)
	return p
}

// failedOne is about one of several that the API could not do, and says why.
func (c *Client) failedOne(status int, detail string, header http.Header) error {
	return &Problem{Status: status, Detail: detail, RetryAfter: retryAfter(header), host: c.host}
}

// strange is about an answer that is not pushpace's.
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
