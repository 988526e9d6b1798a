package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/config"
)

// A parameter that is given twice is refused on every route, be it the same value.
func TestAParameterTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tokens := map[config.Role]string{config.Producer: producerToken, config.Viewer: viewerToken, config.Operator: operatorToken}
	tried := 0
	for _, route := range routes {
		path := strings.NewReplacer("{", "", "}", "").Replace(route.path)
		body := ""
		if route.takes {
			body = "{}"
		}
		for _, name := range route.query {
			if name == route.several {
				continue
			}
			tried++
			p := r.do(http.StatusBadRequest, tokens[rolesOf(route)[0]], route.method, path+"?"+name+"=shop&"+name+"=shop", body).problem(t)
			if p.Detail != "The query's "+name+" must be given once." {
				t.Errorf("%s %s, %s twice: %+v", route.method, route.path, name, p)
			}
		}
	}
	if tried == 0 {
		t.Error("no route takes a parameter")
	}
}
