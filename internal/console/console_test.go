package console

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Requests that no route accepts get an error page.
func TestUnknownRequestsAreRejected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, want := range map[string]int{
		"/console/none": http.StatusNotFound, "/console//": http.StatusNotFound, "/console/?x=1": http.StatusBadRequest,
		"/console/?%zz": http.StatusBadRequest, "/console/static/none": http.StatusNotFound,
	} {
		contains(t, r.get(want, path), "<h1>")
	}
	for _, path := range []string{signInPath, "/console"} { // without tokens there is no sign-in
		leads(t, r.get(http.StatusSeeOther, path), Path)
	}
	elsewhere := httptest.NewRequest(http.MethodGet, Path, nil)
	recorder := httptest.NewRecorder()
	elsewhere.Host = "rebound.example"
	r.console.ServeHTTP(recorder, elsewhere)
	if recorder.Code != http.StatusForbidden {
		t.Errorf("a name that points here: %d", recorder.Code)
	}
}
