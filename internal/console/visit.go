package console

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/push"
)

// A visit is a request that its principal may make.
type visit struct {
	*http.Request
	who operate.Principal
	// as reads and acts for the principal; nil on a route without an action.
	as    *operate.Operator
	query url.Values
	form  url.Values
	// spent is the time that identification took.
	spent time.Duration
}

// anonymous returns a visit without a principal, for the answer to a failed request.
func (c *Console) anonymous(r *http.Request) *visit { return &visit{Request: r} }

// visit parses and authorizes the request. It returns the visit with an error too.
func (c *Console) visit(req *http.Request, r route) (*visit, error) {
	v := c.anonymous(req)
	if r.action != nil {
		begun := time.Now()
		who, err := c.authenticate(req)
		if err != nil {
			return v, err
		}
		v.who, v.as, v.spent = who, c.o.Service.As(who, req.RemoteAddr), time.Since(begun)
		switch {
		case who.Role == config.Producer: // whatever the action is
			return v, errNoConsole
		case !r.action.Allows(who):
			return v, errForbidden
		}
	}
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return v, errBadQuery
	}
	if other := unknownName(query, r.query); other != "" {
		return v, unknownParameter(other)
	}
	v.query = query
	if req.Method == http.MethodPost {
		most := int64(maxForm)
		if r.action == nil {
			most = maxPublicForm
		}
		req.Body = http.MaxBytesReader(nil, req.Body, most)
		if err := req.ParseForm(); err != nil || unknownName(req.PostForm, r.form) != "" {
			return v, errBadForm
		}
		v.form = req.PostForm
	}
	return v, nil
}

// ref returns the notification or dead letter that the address names.
func (v *visit) ref() push.Ref {
	return push.Ref{ID: v.PathValue("id"), App: v.query.Get("app"), User: v.query.Get("user")}
}

// refTo returns the address of ref below the address of a list.
func refTo(list string, ref push.Ref) string {
	return address(pathOf(list, ref.ID), field{"app", ref.App}, field{"user", ref.User})
}

// authenticate returns the request's principal, holding one of the permits for requests.
func (c *Console) authenticate(req *http.Request) (operate.Principal, error) {
	leave, err := c.enter()
	if err != nil {
		return operate.Principal{}, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(req.Context(), c.within)
	defer cancel()
	return c.identify(ctx, req)
}

// longestName bounds the part of a name that a page repeats, in bytes.
const longestName = 64

// unknownName returns the first name of a value that is not in names; "" if all are in names.
func unknownName(values url.Values, names []string) string {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(names, name) {
			return cmp.Or(name[:min(len(name), longestName)], "without a name")
		}
	}
	return ""
}
