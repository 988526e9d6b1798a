// Package apiclient is a client of the HTTP API. It returns the values of internal/operate, and the
// errors that the API's problems name.
package apiclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/base/textfile"
)

const (
	dialTimeout = 5 * time.Second
	// timeout bounds a request and its answer. The API's own bounds are shorter by
	// default.
	timeout = 30 * time.Second
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 64 << 20
	// connections bounds the connections to the API that are kept open.
	connections = 8
)

// Options say where the API is.
type Options struct {
	// URL of the API, http or https, without /v1. Over http a token goes to the
	// loopback only.
	URL string
	// Token authenticates the caller. Empty for an API without tokens.
	Token string
	// CAFile holds the authorities, in PEM, that sign the API's certificate.
	// Empty means the system's.
	CAFile string
}

// A Client speaks to one API. It is safe for concurrent use.
type Client struct {
	base  string
	host  string // "" for the API in this process
	token string
	http  *http.Client
	end   func() error // closes the parts of an API in this process; nil for another API
}

// New returns a client. It connects to nothing yet; its error is about the options.
func New(o Options) (*Client, error) {
	base, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the API's token holds a space, a line end or a character outside ASCII: no token does")
	}
	if o.Token != "" && base.Scheme == "http" && !loopback(base.Hostname()) {
		return nil, fmt.Errorf("the API at %s: a token does not go over plain http to another machine: use https", base.Host)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	transport.TLSHandshakeTimeout = dialTimeout
	transport.MaxIdleConnsPerHost = connections
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := textfile.Read(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("the API's certificate authorities: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the API's certificate authorities: %s holds no certificate in PEM", o.CAFile)
		}
	}
	return &Client{
		base: strings.TrimRight(base.String(), "/"), host: base.Host, token: o.Token,
		http: &http.Client{
			Transport: transport, Timeout: timeout,
			// a redirect would carry the token elsewhere
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// NewLocal returns a client of an API in this process. The client's Close calls end.
func NewLocal(api http.Handler, end func() error) *Client {
	return &Client{base: "http://localhost", http: &http.Client{Transport: inProcess{api}}, end: end}
}

// inProcess passes requests to a handler, without a connection.
type inProcess struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.WithContext(r.Context()) // a copy: the request is the caller's
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	a := &answer{header: http.Header{}}
	p.ServeHTTP(a, r)
	if a.status == 0 { // the handler does not answer a caller that is gone
		return nil, cmp.Or(r.Context().Err(), errNoAnswer)
	}
	return &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r}, nil
}

var errNoAnswer = errors.New("there is no answer")

// An answer collects a handler's response. It implements http.ResponseWriter.
type answer struct {
	header http.Header
	status int // 0 before the handler sets it
	body   bytes.Buffer
}

func (a *answer) Header() http.Header    { return a.header }
func (a *answer) WriteHeader(status int) { a.status = status }
func (a *answer) Write(p []byte) (int, error) {
	a.status = cmp.Or(a.status, http.StatusOK)
	return a.body.Write(p)
}

// parseURL's errors do not repeat the URL: it may hold a password.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("the API's URL: want http://HOST:PORT or https://HOST")
	case u.User != nil:
		return nil, errors.New("the API's URL holds a user: give a token instead")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the API's URL: want no query and no fragment")
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1"):
		return nil, errors.New("the API's URL: want it without /v1")
	}
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Close ends the connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	if c.end != nil {
		return c.end()
	}
	return nil
}

// call makes a request and decodes the answer; body and into may be nil. Its error is the Go error
// that the API's answer names, or a *Problem.
func (c *Client) call(ctx context.Context, method, path string, body, into any) error {
	return c.callOf(ctx, "", method, path, body, into)
}

// callOf is call for the notification or the dead letter with that ID.
func (c *Client) callOf(ctx context.Context, id, method, path string, body, into any) error {
	status, header, answer, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	if status < 200 || status > 299 {
		return c.problem(status, header, answer, id)
	}
	if into == nil {
		return nil
	}
	return c.read(status, answer, into)
}

// read decodes a successful answer.
func (c *Client) read(status int, answer []byte, into any) error {
	if json.Unmarshal(answer, into) != nil {
		return c.strange(status)
	}
	return nil
}

// do makes a request and reads its answer whole.
func (c *Client) do(ctx context.Context, method, path string, body any) (int, http.Header, []byte, error) {
	if body == nil {
		return c.send(ctx, method, path, nil)
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return 0, nil, nil, err
	}
	return c.send(ctx, method, path, &text)
}

// send is do with a body in JSON; nil for no body.
func (c *Client) send(ctx context.Context, method, path string, body *bytes.Buffer) (int, http.Header, []byte, error) {
	var content io.Reader
	if body != nil {
		content = body
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return 0, nil, nil, c.failed(err)
	}
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, "+problems.Type)
	req.Header.Set("User-Agent", "pushpace")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, nil, c.failed(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return 0, nil, nil, c.failed(err)
	}
	if len(answer) > maxAnswer {
		return 0, nil, nil, fmt.Errorf("the API at %s answered more than %d bytes", c.host, maxAnswer)
	}
	return resp.StatusCode, resp.Header, answer, nil
}

// failed returns the error of a request without an answer. It does not show the path.
func (c *Client) failed(err error) error {
	var where *url.Error
	if errors.As(err, &where) {
		err = where.Err
	}
	if c.host == "" {
		return err
	}
	return fmt.Errorf("the API at %s: %w", c.host, err)
}

// segment escapes any name, even "..", as one segment of a path.
func segment(name string) string {
	if name == "." || name == ".." {
		return "/" + strings.ReplaceAll(name, ".", "%2E")
	}
	return "/" + url.PathEscape(name)
}
