package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// readQuery reads the query of a route that takes these parameters, or none, each once but
// for several.
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

// flag returns whether the parameter is there: it is true, or left out.
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
