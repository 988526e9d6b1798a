package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/internal/base/names"
)

// readQuery reads the query of a route. taken are the allowed parameters, which may appear
// once; only the parameter in several may be repeated.
func readQuery(raw string, taken []string, several string) (url.Values, error) {
	if raw == "" {
		return nil, nil
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &problem{Status: http.StatusBadRequest, Detail: "The query is not well formed."}
	}
	if len(taken) == 0 && len(query) > 0 {
		return nil, &problem{Status: http.StatusBadRequest, Detail: "This path takes no query."}
	}
	for name, values := range query {
		if !slices.Contains(taken, name) {
			return nil, &problem{Status: http.StatusBadRequest, Detail: "The query may have " + strings.Join(taken, ", ") + " and nothing else."}
		}
		if len(values) > 1 && name != several {
			return nil, badQuery(name, "given once")
		}
	}
	return query, nil
}

// checkNames refuses white space at the ends of the names in a query. DELETE accepts it: an
// override of an older version may have such a name.
func checkNames(method string, query url.Values) error {
	if method == http.MethodDelete {
		return nil
	}
	for _, name := range []string{"app", "user", "category", "collapse_key"} {
		for _, value := range query[name] {
			if problem := names.Ends(value); problem != "" {
				return badQuery(name, "a name: it "+problem)
			}
		}
	}
	return nil
}

// flag reports whether the query has the parameter. Its only valid value is true.
func flag(query url.Values, name string) (bool, error) {
	switch query.Get(name) {
	case "":
		return false, nil
	case "true":
		return true, nil
	}
	return false, badQuery(name, "true, or left out")
}

func badQuery(name, want string) *problem {
	return &problem{Status: http.StatusBadRequest, Detail: "The query's " + name + " must be " + want + "."}
}
