package console

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/base/eventually"
)

// An internal error is logged with its cause and without stored content. Repeated rejections are
// logged as a count.
func TestInternalErrorIsLoggedWithoutContent(t *testing.T) {
	t.Parallel()
	var log eventually.Log
	r := newRig(t, withTokens, withLog(&log)).as(viewerToken)
	must(t, r.client.Set(t.Context(), r.sessionKey(), `{"name":"hunter2`, 0).Err())
	log.Take()
	contains(t, r.get(http.StatusInternalServerError, Path), `class="answer fault"`)
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "status=500") || !strings.Contains(got, "cause=\"find a session: unexpected end of JSON input\"") || strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	r.cookie = nil
	log.Take()
	for range 200 {
		r.get(http.StatusSeeOther, Path)
	}
	r.console.Close()
	if lines := strings.Count(log.String(), "\n"); lines < 2 || lines > 20 || !strings.Contains(log.String(), `status=401 token="" again=`) {
		t.Errorf("%d lines: %s", lines, log.String())
	}
}

func TestFailedFormReportsWhetherItWasDone(t *testing.T) {
	t.Parallel()
	c := newRig(t).console
	const unknown, nothing = "It is unknown whether the action was done", "Nothing was changed."
	for _, form := range []struct {
		method string
		begun  bool
		err    error
		want   string
	}{
		{http.MethodPost, true, errors.New("away"), unknown},
		{http.MethodPost, false, errors.New("away"), nothing},
		{http.MethodPost, true, errBusy, nothing},
		{http.MethodPost, false, errPanicked, unknown},
		{http.MethodGet, false, errors.New("away"), ""},
	} {
		v := &visit{Request: httptest.NewRequest(form.method, Path+"pauses", nil)}
		if form.begun {
			v.form = url.Values{}
		}
		recorder := httptest.NewRecorder()
		c.fail(recorder, v, form.err)
		for _, sentence := range []string{unknown, nothing} {
			if got := strings.Contains(recorder.Body.String(), sentence); got != (sentence == form.want) {
				t.Errorf("%+v: %q is there: %t", form, sentence, got)
			}
		}
	}
}

// A mistyped address is not logged as a failure.
func TestMistypedAddressIsNotLogged(t *testing.T) {
	t.Parallel()
	var log eventually.Log
	r := newRig(t, withLog(&log))
	r.get(http.StatusBadRequest, "/console/waiting?x=1")
	r.get(http.StatusNotFound, "/console/notifications/none")
	r.console.Close()
	if got := log.String(); got != "" {
		t.Error(got)
	}
}
