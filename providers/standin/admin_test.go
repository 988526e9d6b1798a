package standin

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A fake stand-in is the shared parts alone.
type bare struct {
	Script
	Counters
	ledger  Ledger
	expired int
}

func (b *bare) Ledger() *Ledger { return &b.ledger }
func (b *bare) ExpireTokens()   { b.expired++ }

func admin(t *testing.T, c Controlled) *Admin {
	t.Helper()
	a, err := NewAdmin("127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func call(t *testing.T, method, url, body string, change ...func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(r)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	b := &bare{}
	url := admin(t, b).URL()
	done := func(method, path, body string) {
		t.Helper()
		if status, text := call(t, method, url+path, body); status != http.StatusNoContent {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
	}
	done("PUT", "/script", `{"token":"a","answers":[{"status":410,"since":"2026-11-20T20:00:00Z"},{"fault":"black-hole","delay":"50ms"}]}`)
	done("PUT", "/always", `{"status":429,"reason":"TooManyRequests","retry_after":"1m30s","retry_after_date":true}`)
	for _, want := range []Answer{
		{Status: 410, Since: time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)},
		{Fault: BlackHole, Delay: 50 * time.Millisecond},
		{Status: 429, Reason: "TooManyRequests", RetryAfter: 90 * time.Second, RetryAfterDate: true},
	} {
		if got := b.Next("a"); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	done("DELETE", "/always", "")
	if got := b.Next("a"); got != (Answer{}) {
		t.Errorf("after DELETE: %+v", got)
	}
	done("PUT", "/script", `{"token":"b","answers":[{"status":500}]}`)
	done("PUT", "/script", `{"token":"b","answers":[]}`)
	if got := b.Next("b"); got != (Answer{}) {
		t.Errorf("after an empty script: %+v", got)
	}
	done("POST", "/expire-tokens", "")
	if b.expired != 1 {
		t.Errorf("expired %d times", b.expired)
	}
	b.Opened()
	b.Begin()
	b.ledger.Add(Entry{})
	status, text := call(t, "GET", url+"/counters", "")
	const want = `{"connections":1,"open":1,"received":1,"in_flight":1,"peak":1,"accepted":1}` + "\n"
	if status != http.StatusOK || text != want {
		t.Errorf("%d %s, want %s", status, text, want)
	}
}

func TestAdminRefuses(t *testing.T) {
	t.Parallel()
	b := &bare{}
	url := admin(t, b).URL()
	for name, c := range map[string]struct {
		method, path, body string
		status             int
	}{
		"no JSON":        {"PUT", "/always", `x`, 400},
		"unknown field":  {"PUT", "/always", `{"sttus":500}`, 400},
		"unknown fault":  {"PUT", "/always", `{"fault":"meteor"}`, 400},
		"status":         {"PUT", "/always", `{"status":42}`, 400},
		"delay":          {"PUT", "/always", `{"delay":"-1s"}`, 400},
		"delay for long": {"PUT", "/always", `{"delay":"25h"}`, 400},
		"two values":     {"PUT", "/always", `{} {}`, 400},
		"no token":       {"PUT", "/script", `{"answers":[{}]}`, 400},
		"bad answer":     {"PUT", "/script", `{"token":"a","answers":[{"x":1}]}`, 400},
		"too long":       {"PUT", "/script", `{"token":"` + strings.Repeat("x", maxAdminRequest) + `"}`, 400},
		"method":         {"GET", "/always", ``, 405},
		"path":           {"GET", "/", ``, 404},
	} {
		if status, text := call(t, c.method, url+c.path, c.body); status != c.status {
			t.Errorf("%s: %d %s, want %d", name, status, text, c.status)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"a page elsewhere":        func(r *http.Request) { r.Header.Set("Origin", "https://example.com") },
		"a name that points here": func(r *http.Request) { r.Host = "example.com" },
	} {
		if status, _ := call(t, "POST", url+"/expire-tokens", "", change); status != http.StatusForbidden {
			t.Errorf("%s: %d", name, status)
		}
	}
	if b.expired != 0 || b.Next("a") != (Answer{}) {
		t.Error("something was done all the same")
	}
}

func TestAdminAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", ":0", "0.0.0.0:0", "localhost:0", "192.0.2.1:0", "127.0.0.1", "[::]:0"} {
		if a, err := NewAdmin(address, &bare{}); err == nil {
			_ = a.Close()
			t.Errorf("%q is taken", address)
		}
	}
}

func TestAnswerJSON(t *testing.T) {
	t.Parallel()
	for fault := NoFault; fault <= Drain; fault++ {
		want := Answer{Status: 503, Fault: fault, Delay: time.Second}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Answer
		if err := json.Unmarshal(text, &got); err != nil || got != want {
			t.Errorf("%s: got %+v (%v), want %+v", text, got, err, want)
		}
	}
}
