package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What no page takes is refused, by a page.
func TestRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, want := range map[string]int{
		"/console/none": http.StatusNotFound, "/console//": http.StatusNotFound, "/console/?x=1": http.StatusBadRequest,
		"/console/?%zz": http.StatusBadRequest, "/console/static/none": http.StatusNotFound,
	} {
		if text := r.get(want, path); !strings.Contains(text, "<h1>") {
			t.Errorf("%s: %s", path, text)
		}
	}
	elsewhere := httptest.NewRequest(http.MethodGet, Path, nil)
	recorder := httptest.NewRecorder()
	elsewhere.Host = "rebound.example"
	r.console.ServeHTTP(recorder, elsewhere)
	if recorder.Code != http.StatusForbidden {
		t.Errorf("a name that points here: %d", recorder.Code)
	}
}
