package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// postAs hands over the body with these values of Idempotency-Key.
func (r *rig) postAs(want int, path, body string, keys ...string) *exchange {
	r.t.Helper()
	req := httptest.NewRequest("POST", path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+producerToken)
	req.Header[idempotencyHeader] = keys
	return r.send(want, req, body)
}

// The header is the ID of a notification that has none, quoted or bare, and of none that
// has another.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const path = "/v1/notifications"
	long := strings.Repeat("k", 128)
	for _, c := range []struct {
		key, id, body string
		want          int
	}{
		{"bare", "bare", notification("", "ada"), http.StatusAccepted},
		{`"bare"`, "bare", notification("", "ada"), http.StatusOK},
		{`"bare"`, "bare", notification("bare", "ada"), http.StatusOK},
		{`"bare"`, "", notification("", "ben"), http.StatusConflict},
		{`"a \"b\" \\ c"`, `a "b" \ c`, notification("", "ada"), http.StatusAccepted},
		{`a"b\c`, `a"b\c`, notification("", "ada"), http.StatusAccepted},
		{`"` + long + `"`, long, notification("", "ada"), http.StatusAccepted},
	} {
		answer := r.postAs(c.want, path, c.body, c.key)
		var got accepted
		if c.want < 400 {
			answer.into(t, &got)
		}
		if got.ID != c.id || got.Known != (c.want == http.StatusOK) {
			t.Errorf("%s: %s", c.key, answer.text)
		}
	}
	for name, keys := range map[string][]string{
		"empty": {""}, "empty and quoted": {`""`}, "blank": {`" "`}, "too long": {long + "k"}, "two": {"a", "a"}, "open": {`"a`}, "a quote": {`"`},
		"a quote inside": {`"a"b"`}, "an escape": {`"a\n"`}, "an escape at the end": {`"a\"`}, "another character": {"ö"}, "parameters": {`"a";b=1`}, "a control character": {"a\tb"}, "no text": {"\xff"},
	} {
		p := r.postAs(http.StatusBadRequest, path, notification("", "ada"), keys...).problem(t)
		if p.Detail != errBadKey.Detail {
			t.Errorf("%s: %+v", name, p)
		}
	}
	p := r.postAs(http.StatusBadRequest, path, notification("another", "ada"), "bare").problem(t)
	if len(p.Errors) != 1 || p.Errors[0] != (fault{"/id", "is another than the header Idempotency-Key has"}) {
		t.Errorf("%+v", p)
	}
	if p := r.postAs(http.StatusBadRequest, path, `{"app":"demo"}`, "bare").problem(t); len(p.Errors) < 2 {
		t.Errorf("the body's own faults: %+v", p)
	}
	for _, many := range []string{path, path + ":batch"} {
		if p := r.postAs(http.StatusBadRequest, many, "["+notification("", "ada")+"]", "one").problem(t); p.Detail != errKeyOfMany.Detail {
			t.Errorf("%s: %+v", many, p)
		}
	}
	if counts := r.counts(); counts.Accepted != 4 {
		t.Errorf("%+v", counts)
	}
}
