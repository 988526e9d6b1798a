package fcmtest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"golang.org/x/oauth2/jwt"

	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/standin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A client speaks to a server without any SDK.
type client struct {
	*testing.T
	server  *fcmtest.Server
	http    *http.Client
	account *jwt.Config
	bearer  string
}

func start(t *testing.T, options fcmtest.Options) *client {
	t.Helper()
	server, err := fcmtest.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	config, err := server.WriteCredentials(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(config.RootCAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	text, err := os.ReadFile(config.CredentialsFile)
	if err != nil {
		t.Fatal(err)
	}
	account, err := google.JWTConfigFromJSON(text, "https://www.googleapis.com/auth/firebase.messaging")
	if err != nil {
		t.Fatal(err)
	}
	c := &client{T: t, server: server, http: &http.Client{Transport: transport}, account: account}
	token, err := c.token()
	if err != nil {
		t.Fatal(err)
	}
	c.bearer = token.AccessToken
	return c
}

func (c *client) token() (*oauth2.Token, error) {
	return c.account.TokenSource(context.WithValue(c.Context(), oauth2.HTTPClient, c.http)).Token()
}

// A reply is an answer of the server.
type reply struct {
	status int
	proto  string
	header http.Header
	body   string
}

func (c *client) post(path, body string) (reply, error) {
	r, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.server.URL()+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	r.Header.Set("Authorization", "Bearer "+c.bearer)
	response, err := c.http.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Proto, response.Header, string(text)}, err
}

// send posts a send request.
func (c *client) send(body string) reply {
	c.Helper()
	got, err := c.post("/v1/projects/"+fcmtest.DefaultProject+"/messages:send", body)
	if err != nil {
		c.Fatal(err)
	}
	return got
}

// to is a send request to a token.
func to(token string) string { return fmt.Sprintf(`{"message":{"token":%q,"data":{"k":"v"}}}`, token) }

func TestAccepted(t *testing.T) {
	t.Parallel()
	var seen bytes.Buffer
	c := start(t, fcmtest.Options{Seen: func(b []byte) { seen.Write(b) }})
	const message = `{"message":{"token":"t","data":{"pushpace_id":"n-1","k":"<v>"}}}`
	got := c.send(message)
	var body struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.status != http.StatusOK || got.proto != "HTTP/2.0" {
		t.Fatalf("%+v: %v", got, err)
	}
	entries := c.server.Ledger().Entries()
	if len(entries) != 1 {
		t.Fatalf("%d entries", len(entries))
	}
	e := entries[0]
	if time.Since(e.At) > time.Minute || time.Until(e.At) > 0 {
		t.Errorf("accepted at %v", e.At)
	}
	e.At = time.Time{}
	want := standin.Entry{
		Platform: "fcm", App: fcmtest.DefaultProject, Token: "t", Name: body.Name, Notification: "n-1",
		PayloadBytes: len(`{"data":{"pushpace_id":"n-1","k":"<v>"}}`),
	}
	if e != want || !strings.HasPrefix(e.Name, "projects/pushpace-test/messages/") {
		t.Errorf("entry %+v, want %+v", e, want)
	}
	if seen.String() != message {
		t.Errorf("saw %s", seen.String())
	}
	if n := c.server.Count(); n.Received != 1 || n.Connections != 1 || n.Peak != 1 {
		t.Errorf("counted %+v", n)
	}
}

func TestHTTP1(t *testing.T) {
	t.Parallel()
	c := start(t, fcmtest.Options{HTTP1: true})
	if got := c.send(to("t")); got.status != http.StatusOK || got.proto != "HTTP/1.1" {
		t.Errorf("%+v", got)
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	c := start(t, fcmtest.Options{})
	android := func(fields string) string { return `{"message":{"token":"t","android":{` + fields + `}}}` }
	large := func(n int) string {
		return `{"message":{"data":{"k":"` + strings.Repeat("&", n-len(`{"data":{"k":""}}`)) + `"},"token":"t"}}`
	}
	for _, body := range []string{
		to("t"),
		`{"message":{"topic":"news"}}`,
		`{"message":{"condition":"'a' in topics"}}`,
		`{"message":{"token":"t","notification":{"title":"a","body":"b","image":"https://example.com"}}}`,
		`{"message":{"token":"t","fcmOptions":{"analyticsLabel":"x"},"notification":null}}`,
		android(`"ttl":"0s"`), android(`"ttl":"2419200s"`), android(`"ttl":"3.5s"`), android(`"collapseKey":"k"`),
		android(`"priority":"HIGH"`), android(`"priority":"normal"`),
		android(`"notification":{"event_time":"2026-11-20T20:00:00.5Z","vibrate_timings":["0.5s"],"notification_count":1,"visibility":"PRIVATE",
			"light_settings":{"color":{"red":0.5},"light_on_duration":"1s","light_off_duration":"1s"},"body_loc_args":["a"],"sticky":true}`),
		`{"message":{"token":"t","webpush":{"headers":{"TTL":"1"},"notification":{"any":{"thing":1}}}}}`,
		`{"message":{"token":"t","apns":{"headers":{"apns-priority":"5"},"payload":{"aps":{},"any":[1]}}}}`,
		large(4096),
		`{"message":{"token":"t","webpush":{"data":{"k":"` + strings.Repeat("x", 4000) + `"}},"apns":{"payload":{"k":"` + strings.Repeat("x", 4000) + `"}}}}`,
	} {
		if got := c.send(body); got.status != http.StatusOK {
			t.Errorf("%s is refused: %+v", body, got)
		}
	}
	accepted := c.server.Ledger().Len()
	for _, body := range []string{
		"", "[]", "{", `{"message":{"token":"t"}} {}`, "{}", `{"message":null}`, `{"message":[]}`,
		`{"message":{}}`, `{"message":{"token":""}}`, `{"message":{"token":1}}`,
		`{"message":{"token":"t","topic":"news"}}`,
		`{"message":{"token":"t"},"other":1}`, `{"message":{"token":"t","other":1}}`,
		`{"validate_only":1,"message":{"token":"t"}}`,
		`{"message":{"token":"t","notification":{"subtitle":"x"}}}`,
		`{"message":{"token":"t","data":{"k":1}}}`, `{"message":{"token":"t","data":{"from":"x"}}}`,
		`{"message":{"token":"t","data":{"google.x":"x"}}}`, `{"message":{"token":"t","data":"x"}}`,
		android(`"ttl":"1"`), android(`"ttl":1`), android(`"ttl":"-1s"`), android(`"ttl":"2419201s"`), android(`"ttl":".5s"`),
		android(`"ttl":"1.s"`), android(`"ttl":"1h"`), android(`"ttl":"1.1234567890s"`), android(`"priority":"urgent"`),
		android(`"notification":{"event_time":"today"}`), android(`"notification":{"vibrate_timings":"1s"}`),
		android(`"notification":{"vibrate_timings":["1"]}`), android(`"notification":{"notification_count":1.5}`),
		android(`"notification":{"sticky":"true"}`), android(`"notification":{"light_settings":{"color":{"red":"x"}}}`),
		`{"message":{"token":"t","apns":{"payload":"x"}}}`,
		large(4097), `{"message":{"token":"t","apns":{"payload":{"k":"` + strings.Repeat("x", 4096) + `"}}}}`, `{"message":{"topic":"news","data":{"k":"` + strings.Repeat("x", 2048) + `"}}}`,
	} {
		got := c.send(body)
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, "INVALID_ARGUMENT") {
			t.Errorf("%.80s is answered with %+v", body, got)
		}
	}
	if n := c.server.Ledger().Len(); n != accepted {
		t.Errorf("%d refused messages are in the ledger", n-accepted)
	}
	if got := c.send(strings.Repeat(" ", 100<<10)); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("100 KiB are answered with %d", got.status)
	}
}

// The stand-in judges raw blocks as package push does.
func TestFormsOfPackagePush(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../push/testdata/fcm_forms.json")
	if err != nil {
		t.Fatal(err)
	}
	var forms struct{ Valid, Refused []json.RawMessage }
	if err := json.Unmarshal(text, &forms); err != nil {
		t.Fatal(err)
	}
	c := start(t, fcmtest.Options{})
	check := func(block json.RawMessage, status int) {
		message := `{"message":{"token":"t",` + strings.TrimPrefix(string(block), "{") + `}`
		if got := c.send(message); got.status != status {
			t.Errorf("%s is answered with %+v, want %d", block, got, status)
		}
	}
	for _, block := range forms.Valid {
		check(block, http.StatusOK)
	}
	for _, block := range forms.Refused {
		check(block, http.StatusBadRequest)
	}
}

func TestValidateOnly(t *testing.T) {
	t.Parallel()
	c := start(t, fcmtest.Options{})
	got := c.send(`{"validate_only":true,"message":{"token":"t"}}`)
	if got.status != http.StatusOK || !strings.Contains(got.body, "fake_message_id") {
		t.Errorf("%+v", got)
	}
	if got := c.send(`{"validateOnly":true,"message":{"token":"deaddead"}}`); got.status != http.StatusNotFound {
		t.Errorf("%+v", got)
	}
	if n := c.server.Ledger().Len(); n != 0 {
		t.Errorf("%d entries", n)
	}
}

func TestWhoMaySend(t *testing.T) {
	t.Parallel()
	c := start(t, fcmtest.Options{Projects: []string{fcmtest.DefaultProject, "second"}})
	if got, err := c.post("/v1/projects/second/messages:send", to("t")); err != nil || got.status != http.StatusOK {
		t.Errorf("second project: %+v, %v", got, err)
	}
	for path, want := range map[string]int{
		"/v1/projects/third/messages:send":  http.StatusForbidden,
		"/v1/projects/second/messages:list": http.StatusNotFound,
		"/v2/projects/second/messages:send": http.StatusNotFound,
	} {
		if got, err := c.post(path, to("t")); err != nil || got.status != want || strings.Contains(got.body, "FcmError") {
			t.Errorf("%s: %+v, %v; want %d", path, got, err, want)
		}
	}
	good := c.bearer
	for _, bearer := range []string{"", "x", good + "x"} {
		c.bearer = bearer
		if got := c.send(to("t")); got.status != http.StatusUnauthorized || !strings.Contains(got.body, "UNAUTHENTICATED") {
			t.Errorf("bearer %q: %+v", bearer, got)
		}
	}
	c.bearer = good
	c.server.ExpireTokens()
	if got := c.send(to("t")); got.status != http.StatusUnauthorized {
		t.Errorf("after ExpireTokens: %+v", got)
	}
}

// A project's messages are counted whatever becomes of them, but for those that are
// answered with 429.
func TestProjectQuota(t *testing.T) {
	t.Parallel()
	c := start(t, fcmtest.Options{
		Projects:     []string{fcmtest.DefaultProject, "second"},
		ProjectQuota: fcmtest.Quota{Count: 4, Per: time.Hour, Begins: time.Now().Add(-50 * time.Minute)},
	})
	c.server.Respond("busy", standin.Answer{Status: http.StatusTooManyRequests})
	for i, x := range []struct {
		body   string
		status int
	}{
		{to("t"), 200}, {to("deaddead"), 404}, {to("busy"), 429}, {`{}`, 400}, {`{"validate_only":true,"message":{"topic":"news"}}`, 200},
	} {
		if got := c.send(x.body); got.status != x.status || strings.Contains(got.body, "RATE_LIMIT_EXCEEDED") {
			t.Errorf("push %d: %+v, want %d", i, got, x.status)
		}
	}
	got := c.send(to("t"))
	after, err := strconv.Atoi(got.header.Get("Retry-After"))
	if err != nil || after > 600 || after < 500 {
		t.Errorf("Retry-After %q, want the 10 minutes that are left of the hour", got.header.Get("Retry-After"))
	}
	for _, holds := range []string{`"status":"RESOURCE_EXHAUSTED"`, `"errorCode":"QUOTA_EXCEEDED"`, "RATE_LIMIT_EXCEEDED"} {
		if got.status != http.StatusTooManyRequests || !strings.Contains(got.body, holds) {
			t.Errorf("%+v does not hold %s", got, holds)
		}
	}
	if n := c.server.OverQuota(); n != 1 {
		t.Errorf("%d were over quota, want 1", n)
	}
	if got, err := c.post("/v1/projects/second/messages:send", to("t")); err != nil || got.status != http.StatusOK {
		t.Errorf("another project: %+v, %v", got, err)
	}
}

// What a device's quotas refuse is counted for nobody.
func TestDeviceQuotas(t *testing.T) {
	t.Parallel()
	c := start(t, fcmtest.Options{
		ProjectQuota: fcmtest.Quota{Count: 6, Per: time.Hour},
		DeviceQuotas: []fcmtest.Quota{{Count: 5, Per: time.Hour}, {Count: 4, Per: 24 * time.Hour}},
		Collapsible:  fcmtest.Burst{Count: 2, Every: time.Hour},
	})
	const collapsible = `{"message":{"token":"a","android":{"collapseKey":"k"}}}`
	for i, x := range []struct{ body, holds string }{
		{collapsible, ""}, {collapsible, ""}, {collapsible, "QuotaFailure"}, {to("a"), ""}, {to("a"), ""}, {to("a"), "QuotaFailure"},
		{to("b"), ""}, {`{"message":{"topic":"news"}}`, ""}, {to("c"), "RATE_LIMIT_EXCEEDED"},
	} {
		got := c.send(x.body)
		status := http.StatusOK
		if x.holds != "" {
			status = http.StatusTooManyRequests
		}
		if got.status != status || !strings.Contains(got.body, x.holds) || (got.header.Get("Retry-After") == "") != (x.holds == "") {
			t.Errorf("push %d: %+v, want %d and %q", i, got, status, x.holds)
		}
	}
}

func TestScripted(t *testing.T) {
	t.Parallel()
	c := start(t, fcmtest.Options{})
	for _, x := range []struct {
		answer standin.Answer
		status int
		holds  string
	}{
		{standin.Answer{Status: 400}, 400, "not a valid FCM registration token"},
		{standin.Answer{Status: 400, Reason: "INVALID_ARGUMENT"}, 400, `"errorCode":"INVALID_ARGUMENT"`},
		{standin.Answer{Status: 400, Reason: fcmtest.InvalidTokenField}, 400, "message.token"},
		{standin.Answer{Status: 401}, 401, "UNAUTHENTICATED"},
		{standin.Answer{Status: 401, Reason: "THIRD_PARTY_AUTH_ERROR"}, 401, `"errorCode":"THIRD_PARTY_AUTH_ERROR"`},
		{standin.Answer{Status: 403}, 403, `"errorCode":"SENDER_ID_MISMATCH"`},
		{standin.Answer{Status: 403, Reason: fcmtest.Bare}, 403, "PERMISSION_DENIED"},
		{standin.Answer{Status: 404}, 404, `"errorCode":"UNREGISTERED"`},
		{standin.Answer{Status: 404, Reason: fcmtest.Bare}, 404, "NOT_FOUND"},
		{standin.Answer{Status: 410}, 404, `"errorCode":"UNREGISTERED"`},
		{standin.Answer{Status: 429}, 429, `"errorCode":"QUOTA_EXCEEDED"`},
		{standin.Answer{Status: 429, Reason: fcmtest.DeviceQuota}, 429, "Device message rate exceeded"},
		{standin.Answer{Status: 500}, 500, `"errorCode":"INTERNAL"`},
		{standin.Answer{Status: 503}, 503, `"errorCode":"UNAVAILABLE"`},
		{standin.Answer{Status: 504}, 504, "DEADLINE_EXCEEDED"},
		{standin.Answer{Status: 418}, 418, "UNKNOWN"},
		{standin.Answer{Status: 404, Reason: "NEW_CODE"}, 404, `"errorCode":"NEW_CODE"`},
		{standin.Answer{Fault: standin.Page}, 502, "<html>"},
	} {
		c.server.Respond("t", x.answer)
		got := c.send(to("t"))
		if got.status != x.status || !strings.Contains(got.body, x.holds) {
			t.Errorf("%+v: %+v", x.answer, got)
		}
		if x.answer.Reason == fcmtest.Bare && strings.Contains(got.body, "FcmError") {
			t.Errorf("%+v holds an FcmError: %s", x.answer, got.body)
		}
	}
	if n := c.server.Ledger().Len(); n != 0 {
		t.Errorf("%d are in the ledger", n)
	}
	if got := c.send(to("t")); got.status != http.StatusOK {
		t.Errorf("after the script: %+v", got)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	c := start(t, fcmtest.Options{})
	c.server.Respond("t",
		standin.Answer{Status: 503, RetryAfter: time.Minute},
		standin.Answer{Status: 503, RetryAfter: time.Minute, RetryAfterDate: true})
	if got := c.send(to("t")).header.Get("Retry-After"); got != "60" {
		t.Errorf("Retry-After %q", got)
	}
	at, err := http.ParseTime(c.send(to("t")).header.Get("Retry-After"))
	if err != nil || time.Until(at) < 50*time.Second || time.Until(at) > 62*time.Second {
		t.Errorf("Retry-After %v: %v", at, err)
	}
}

func TestByToken(t *testing.T) {
	t.Parallel()
	c := start(t, fcmtest.Options{})
	for token, want := range map[string]int{
		"deaddead1": 404, "baddbadd1": 400, "fade0429": 429, "fade0503": 503, "fade0502": 502, "fade0401": 401,
	} {
		for range 2 {
			if got := c.send(to(token)); got.status != want {
				t.Errorf("%s: %d, want %d", token, got.status, want)
			}
		}
	}
	for i, want := range []int{503, 200} {
		got := c.send(to("fade3503"))
		if got.status != want || (got.header.Get("Retry-After") != "") != (i == 0) {
			t.Errorf("fade3503, push %d: %+v", i, got)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, http1 := range []bool{false, true} {
		for fault, taken := range map[standin.Fault]int{
			standin.Close: 1, standin.GoAway: 1, standin.GoAwayUnprocessed: 0, standin.BlackHole: 1,
		} {
			c := start(t, fcmtest.Options{HTTP1: http1})
			c.server.Respond("t", standin.Answer{Fault: fault}, standin.Answer{Fault: fault})
			timeout := 30 * time.Second
			if fault == standin.BlackHole {
				timeout = 3 * time.Second // enough to connect on a busy machine
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server.URL()+"/v1/projects/pushpace-test/messages:send", strings.NewReader(to("t")))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+c.bearer)
			response, err := c.http.Do(r)
			if err == nil {
				_ = response.Body.Close()
				t.Errorf("fault %d: answered with %d", fault, response.StatusCode)
			}
			cancel()
			if n := c.server.Ledger().Len(); n != taken {
				t.Errorf("fault %d: %d taken, want %d", fault, n, taken)
			}
			if n := c.server.Count().Received; n != 1 {
				t.Errorf("fault %d: %d requests, want 1", fault, n)
			}
		}
	}
}

func TestLatency(t *testing.T) {
	t.Parallel()
	c := start(t, fcmtest.Options{Latency: standin.Latency{Typical: 30 * time.Millisecond}})
	c.server.Respond("slow", standin.Answer{Delay: 50 * time.Millisecond})
	for token, least := range map[string]time.Duration{"t": 30 * time.Millisecond, "slow": 80 * time.Millisecond} {
		began := time.Now()
		c.send(to(token))
		if took := time.Since(began); took < least {
			t.Errorf("%s took %v, want at least %v", token, took, least)
		}
	}
}

// What is held up when the server closes is not answered as if it were accepted.
func TestCloseAnswersNothing(t *testing.T) {
	t.Parallel()
	server, err := fcmtest.NewServer(fcmtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
	c := start(t, fcmtest.Options{Latency: standin.Latency{Typical: time.Hour}})
	failed := make(chan error, 1)
	go func() {
		_, err := c.post("/v1/projects/pushpace-test/messages:send", to("t"))
		failed <- err
	}()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for c.server.Ledger().Len() == 0 {
		<-ticker.C
	}
	if err := c.server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("it was answered")
	}
}
