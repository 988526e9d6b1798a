package apiclient_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "hunter2"

// client returns a client of a server with the handler f.
func client(t *testing.T, f http.HandlerFunc) *apiclient.Client {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c, err := apiclient.New(apiclient.Options{URL: server.URL + "/", Token: token})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func problem(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// An answer that is not pushpace's is reported as such, without the token.
func TestForeignAnswerIsReported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"page", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "answered 200 OK, and not as pushpace's API does: is the URL right?"},
		{"missing page", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotFound) }, "answered 404 Not Found, and not as"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example/", http.StatusFound)
		}, "answered 302 Found, and not as"},
		{"proxy", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, token, http.StatusBadGateway) }, "answered 502 Bad Gateway"},
		{"hang up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		{"no token", func(w http.ResponseWriter, _ *http.Request) {
			problem(w, http.StatusUnauthorized, `{"title":"Unauthorized","status":401,"detail":"Send a token."}`)
		}, "answered 401 Unauthorized: Send a token: give the API's token by --token-file or PUSHPACE_API_TOKEN"},
		{"faults", func(w http.ResponseWriter, _ *http.Request) {
			problem(w, http.StatusBadRequest, `{"detail":"The body is not valid.","errors":[{"pointer":"/rates/0","detail":"is odd"},{"pointer":"","detail":"is long"}]}`)
		}, "answered 400 Bad Request: The body is not valid: /rates/0: is odd; is long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := client(t, c.answer).Audit(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), token) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A name stays within its segment of the path. Each request has the token.
func TestNameStaysInItsPathSegment(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a/b", "../../audit", "a?b=c", "ö 日本", "%2F", "a#b", ".", ".."} {
		var got []string
		c := client(t, func(w http.ResponseWriter, r *http.Request) {
			got = append(got, r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"))
			_, _ = io.WriteString(w, `{"state":"waiting"}`)
		})
		if _, err := c.Status(t.Context(), push.Ref{ID: name}); err != nil || got[0] != "/v1/notifications/"+name || got[1] != "" || got[2] != "Bearer "+token {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

// JSON of another server is not taken for an answer of pushpace.
func TestForeignJSONIsNoAnswer(t *testing.T) {
	t.Parallel()
	c := client(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true}`) })
	_, status := c.Status(t.Context(), push.Ref{ID: "one"})
	_, overview := c.Overview(t.Context())
	for _, err := range []error{status, overview} {
		if err == nil || !strings.Contains(err.Error(), "is the URL right?") {
			t.Error(err)
		}
	}
}

func ns(ids ...string) []apiclient.Item {
	var all []apiclient.Item
	for _, id := range ids {
		all = append(all, apiclient.ItemOf(&push.Notification{ID: id, App: "a", User: "u"}))
	}
	return all
}

// Each notification of a batch has its own result.
func TestBatchHasAResultPerNotification(t *testing.T) {
	t.Parallel()
	c := client(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"results":[{"id":"new","status":202},{"id":"old","status":200},{"status":400,"errors":[{"pointer":"/2/user","detail":"is empty"}]},{"id":"lost","status":503,"detail":"Redis is full (OOM)."}]}`)
	})
	got := c.Enqueue(t.Context(), ns("new", "old", "bad", "lost"))
	var faults push.Faults
	var p *apiclient.Problem
	switch {
	case got[0].Err != nil || got[0].Known || got[0].ID != "new",
		got[1].Err != nil || !got[1].Known,
		!errors.As(got[2].Err, &faults) || faults[0] != push.Fault{Field: "/user", Problem: "is empty"},
		!errors.As(got[3].Err, &p) || !p.Again() || p.RetryAfter != 2*time.Second || got[3].ID != "lost" || !strings.HasSuffix(p.Error(), "503 Service Unavailable: Redis is full (OOM)"):
		t.Errorf("%+v", got)
	}
}

// If the API refuses a batch, the error says whether to retry.
func TestRefusedBatchSaysWhetherToRetry(t *testing.T) {
	t.Parallel()
	for status, again := range map[int]bool{401: false, 403: false, 404: false, 415: false, 408: true, 429: true, 500: true, 503: true} {
		c := client(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "999999999")
			problem(w, status, `{}`)
		})
		for _, r := range c.Enqueue(t.Context(), ns("a", "b")) {
			var p *apiclient.Problem
			if !errors.As(r.Err, &p) || p.Again() != again || p.RetryAfter != 30*time.Second || r.ID == "" {
				t.Errorf("%d: %+v", status, r)
			}
		}
	}
}

// A batch that is too large is sent in parts; a notification that is too large is refused.
func TestLargeBatchIsSplit(t *testing.T) {
	t.Parallel()
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		var all []push.Notification
		if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
			t.Error(err)
		}
		if len(all) > 2 || slices.ContainsFunc(all, func(n push.Notification) bool { return n.ID == "large" }) {
			problem(w, http.StatusRequestEntityTooLarge, `{}`)
			return
		}
		results := make([]string, len(all))
		for i, n := range all {
			results[i] = fmt.Sprintf(`{"id":%q,"status":202}`, n.ID)
		}
		_, _ = io.WriteString(w, `{"results":[`+strings.Join(results, ",")+`]}`)
	})
	ids := []string{"a", "b", "c", "d", "large", "e", "f"}
	for i, r := range c.Enqueue(t.Context(), ns(ids...)) {
		if large := ids[i] == "large"; errors.As(r.Err, new(push.Faults)) != large || !large && r.Err != nil || r.ID != ids[i] {
			t.Errorf("%s: %+v", ids[i], r)
		}
	}
}

// The certificate is verified by the authorities of the system, or of the given file.
func TestClientVerifiesCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must(t, os.WriteFile(file, text, 0o600))
	for ca, ok := range map[string]bool{"": false, file: true} {
		c, err := apiclient.New(apiclient.Options{URL: server.URL, Token: token, CAFile: ca})
		must(t, err)
		if _, err := c.Audit(t.Context()); (err == nil) != ok {
			t.Errorf("authorities %q: %v", ca, err)
		}
		_ = c.Close()
	}
}

// The client knows the outcomes of a bulk request. An unknown outcome, such as a newer API may
// send, is no success.
func TestUnknownOutcomeIsNoSuccess(t *testing.T) {
	t.Parallel()
	c := client(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"results":[{"outcome":"done"},{"outcome":"unknown","code":"unknown_id"},{"outcome":"postponed","code":"ended"},{},{"outcome":"failed","detail":"Redis does not answer."},
			{"outcome":"ambiguous"},{"outcome":"ambiguous","code":"ambiguous_id","choices":[{"app":"shop","user":"ada"},{"app":"","user":""}]}]}`)
	})
	errs := c.CancelEach(t.Context(), []push.Ref{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}, {ID: "e"}, {ID: "f"}, {ID: "g"}, {ID: "h"}})
	if len(errs) != 8 || errs[0] != nil || !errors.Is(errs[1], push.ErrUnknownID) {
		t.Fatalf("%v", errs)
	}
	if err := errs[4]; err == nil || !strings.HasSuffix(err.Error(), ": Redis does not answer") {
		t.Errorf("%v", err)
	}
	var several *push.AmbiguousError
	if !errors.As(errs[6], &several) || !slices.Equal(several.Choices, []push.Ref{{ID: "g", App: "shop", User: "ada"}, {ID: "g"}}) {
		t.Errorf("%v", errs[6])
	}
	for _, err := range append(errs[2:4], errs[5], errs[7]) {
		if err == nil || !strings.Contains(err.Error(), "not as pushpace's API does") {
			t.Errorf("%v", err)
		}
	}
}

// The faults of an import point into the whole list, however many requests it takes. With a
// fault, nothing is set.
func TestImportFaultsHaveIndexInWholeList(t *testing.T) {
	t.Parallel()
	set := 0
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "dry_run=true" {
			set++
		}
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "wrong") {
			problem(w, http.StatusBadRequest, `{"errors":[{"pointer":"/overrides/0/min_gap","detail":"is wrong"},{"pointer":"/overrides/2","detail":"is"}]}`)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	all := make([]limits.Override, 1003)
	for i := range all {
		all[i].User = "ada"
	}
	all[1000].User = "wrong"
	err := c.Import(t.Context(), all)
	var p *apiclient.Problem
	if !errors.As(err, &p) || len(p.Errors) != 2 || p.Errors[0].Pointer != "/overrides/1000/min_gap" || p.Errors[1].Pointer != "/overrides/1002" || set > 0 {
		t.Errorf("%v, of %d requests that set", err, set)
	}
	if err := c.Import(t.Context(), all[:1000]); err != nil || set != 1 {
		t.Errorf("%v, %d requests", err, set)
	}
	refusing := client(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.RawQuery != "dry_run=true" && strings.Contains(string(body), "wrong") {
			problem(w, http.StatusConflict, `{"detail":"too many"}`)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	var part *apiclient.PartError
	if err := refusing.Import(t.Context(), all); !errors.As(err, &part) || part.Done != 1000 || part.All != 1003 || !errors.Is(err, limits.ErrTooManyOverrides) {
		t.Errorf("what is set when it fails is not said: %v", err)
	}
}

// A request that the API in this process does not answer is no success.
func TestMissingAnswerIsNoSuccess(t *testing.T) {
	t.Parallel()
	ended := false
	c := apiclient.NewLocal(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"state":"waiting"}`)
		}
	}), func() error { ended = true; return nil })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Cancel(gone, push.Ref{ID: "one"}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := c.Cancel(t.Context(), push.Ref{ID: "one"}, 0); err == nil {
		t.Error("without an answer it is done")
	}
	if s, err := c.Status(t.Context(), push.Ref{ID: "one"}); err != nil || s.State != push.Waiting {
		t.Errorf("%+v, %v", s, err)
	}
	if err := c.Close(); err != nil || !ended {
		t.Errorf("it goes on: %v", err)
	}
}

// A request that is too large for the API is sent in parts, and the results keep their order.
func TestLargeCancellationIsSplit(t *testing.T) {
	t.Parallel()
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct{ IDs []push.Ref }
		_ = json.NewDecoder(r.Body).Decode(&body)
		if len(body.IDs) > 2 {
			problem(w, http.StatusRequestEntityTooLarge, `{"status":413}`)
			return
		}
		results := make([]map[string]string, len(body.IDs))
		for i, ref := range body.IDs {
			results[i] = map[string]string{"outcome": ref.ID, "code": ref.ID}
			if ref.ID == "unknown" {
				results[i]["code"] = "unknown_id"
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"results": results})
	})
	errs := c.CancelEach(t.Context(), []push.Ref{{ID: "done"}, {ID: "unknown"}, {ID: "done"}, {ID: "ended"}, {ID: "under_way"}})
	want := []error{nil, push.ErrUnknownID, nil, push.ErrEnded, push.ErrUnderWay}
	if !slices.Equal(errs, want) {
		t.Errorf("%v, want %v", errs, want)
	}
}

func TestWithdrawFollowsCursor(t *testing.T) {
	t.Parallel()
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.Method != http.MethodDelete || q.Get("app") != "shop" || q.Get("user") != "ada" || q.Get("digest_key") != "k" || len(q["thread"]) > 0 {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		answer := map[string]any{"ended": 2, "carried": 1, "in_flight": 1}
		if q.Get("cursor") == "" {
			answer["next"] = "n 7"
		} else if q.Get("cursor") != "n 7" {
			t.Errorf("the cursor is %q", q.Get("cursor"))
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
	got, err := c.Withdraw(t.Context(), "shop", "ada", push.Group{DigestKey: "k"})
	if want := (push.Withdrawn{Ended: 4, Carried: 2, InFlight: 2}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}
