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

// A visit is a request that its bearer may make.
type visit struct {
	*http.Request
	who operate.Principal
	// as looks and acts for who it is; nil for a stranger.
	as    *operate.Operator
	query url.Values
	form  url.Values
	// spent is how long it took to find out who it is.
	spent time.Duration
}

// stranger is the visit of a request that is not answered with what it is about.
func (c *Console) stranger(r *http.Request) *visit { return &visit{Request: r} }

// visit reads the request, once it is known that it may be made. The visit is there
// beside an error too.
func (c *Console) visit(req *http.Request, r route) (*visit, error) {
	v := c.stranger(req)
	if r.action != nil {
		begun := time.Now()
		who, err := c.whose(req)
		if err != nil {
			return v, err
		}
		v.who, v.as, v.spent = who, c.o.Service.As(who, req.RemoteAddr), time.Since(begun)
		switch {
		case who.Role == config.Producer: // whatever else it may
			return v, errNoConsole
		case !r.action.Allows(who):
			return v, errForbidden
		}
	}
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return v, errBadQuery
	}
	if other := strange(query, r.query); other != "" {
		return v, unknownParameter(other)
	}
	v.query = query
	if req.Method == http.MethodPost {
		most := int64(maxForm)
		if r.action == nil {
			most = maxStrangersForm
		}
		req.Body = http.MaxBytesReader(nil, req.Body, most)
		if err := req.ParseForm(); err != nil || strange(req.PostForm, r.form) != "" {
			return v, errBadForm
		}
		v.form = req.PostForm
	}
	return v, nil
}

// ref is the notification or the dead letter that the address names.
func (v *visit) ref() push.Ref {
	return push.Ref{ID: v.PathValue("id"), App: v.query.Get("app"), User: v.query.Get("user")}
}

// refTo is the address of that below a list's.
func refTo(list string, ref push.Ref) string {
	return address(pathOf(list, ref.ID), field{"app", ref.App}, field{"user", ref.User})
}

// whose returns who makes the request, by one of the places for requests.
func (c *Console) whose(req *http.Request) (operate.Principal, error) {
	leave, err := c.enter()
	if err != nil {
		return operate.Principal{}, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(req.Context(), c.within)
	defer cancel()
	return c.identify(ctx, req)
}

// longestName is how much of a name a page repeats, in bytes.
const longestName = 64

// strange returns a name of the values that is none of these, "" where there is none.
func strange(values url.Values, names []string) string {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(names, name) {
			return cmp.Or(name[:min(len(name), longestName)], "without a name")
		}
	}
	return ""
}
