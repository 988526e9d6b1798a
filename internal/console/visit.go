package console

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/pushpace/pushpace/internal/access"
)

// A visit is a request that its bearer may make.
type visit struct {
	*http.Request
	who   access.Bearer
	query url.Values
	form  url.Values
}

// stranger is the visit of a request that is not answered with what it is about.
func (c *Console) stranger(r *http.Request) *visit { return &visit{Request: r} }

// visit reads the request, once it is known that it may be made. The visit is there
// beside an error too.
func (c *Console) visit(req *http.Request, r route) (*visit, error) {
	v := c.stranger(req)
	if r.roles != nil {
		who, err := c.identify(req)
		if err != nil {
			return v, err
		}
		if v.who = who; !who.May(r.roles) {
			return v, errForbidden
		}
	}
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil || !only(query, r.query) {
		return v, errBadQuery
	}
	v.query = query
	if req.Method == http.MethodPost {
		req.Body = http.MaxBytesReader(nil, req.Body, maxForm)
		if err := req.ParseForm(); err != nil || !only(req.PostForm, r.form) {
			return v, errBadForm
		}
		v.form = req.PostForm
	}
	return v, nil
}

// only reports whether the values are of these names alone.
func only(values url.Values, names []string) bool {
	for name := range values {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

// identify returns who makes the request.
func (c *Console) identify(r *http.Request) (access.Bearer, error) {
	if c.o.Tokens.None() {
		if !access.FromHere(r) {
			return access.Bearer{}, errNotFromHere
		}
		return access.Nobody(), nil
	}
	return access.Bearer{}, errSignIn
}
