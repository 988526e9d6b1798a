package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestBodyTakesByteOrderMark(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, c := range map[string]struct {
		path, body string
		status     int
		says       string
	}{
		"one":    {"/v1/notifications", "\ufeff" + notification("one", "ada"), http.StatusAccepted, `"one"`},
		"batch":  {"/v1/notifications:batch", "\ufeff[" + notification("two", "ada") + ",\r\n\ufeff" + notification("three", "ada") + "]", http.StatusAccepted, `"three"`},
		"UTF-16": {"/v1/notifications", "\xff\xfe{\x00}\x00", http.StatusBadRequest, "The body is in UTF-16: send it as UTF-8."},
	} {
		req := httptest.NewRequest("POST", c.path, strings.NewReader(c.body)) // no schema knows a mark
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+producerToken)
		answer := httptest.NewRecorder()
		r.api.ServeHTTP(answer, req)
		if answer.Code != c.status || !strings.Contains(answer.Body.String(), c.says) {
			t.Errorf("%s: %d: %s", name, answer.Code, answer.Body)
		}
	}
}
