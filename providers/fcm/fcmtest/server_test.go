package fcmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/providers/providertest"
	"github.com/pushpace/pushpace/providers/standin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A client speaks to a server without any SDK.
type client struct {
	*testing.T
	server *Server
	http   *http.Client
}

func start(t *testing.T, options Options) *client {
	t.Helper()
	server, err := NewServer(options)
	must(t, err)
	providertest.Closing(t, server)
	return &client{T: t, server: server, http: providertest.Client(t, server.CA())}
}

// A reply is an answer of the server.
type reply struct {
	status int
	proto  string
	header http.Header
	body   string
}

// send posts a send request to the server's project, sendTo to any project.
func (c *client) send(body string) reply { return c.sendTo(DefaultProject, body) }

func (c *client) sendTo(project, body string) reply {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.server.URL()+"/v1/projects/"+project+"/messages:send", strings.NewReader(body))
	must(c, err)
	r.Header.Set("Authorization", "Bearer "+c.server.access.issue(time.Now()))
	response, err := c.http.Do(r)
	must(c, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(c, err)
	return reply{response.StatusCode, response.Proto, response.Header, string(text)}
}

// to returns a send request to a token.
func to(token string) string { return fmt.Sprintf(`{"message":{"token":%q,"data":{"k":"v"}}}`, token) }

func TestInvalidMessagesAreRefused(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	large := func(n int) string {
		return `{"message":{"data":{"k":"` + strings.Repeat("&", n-len(`{"data":{"k":""}}`)) + `"},"token":"t"}}`
	}
	for _, body := range []string{
		`{"message":{"topic":"news"}}`,
		`{"message":{"condition":"'a' in topics"}}`,
		`{"message":{"token":"t","fcmOptions":{"analyticsLabel":"x"},"notification":null}}`,
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
		`{"message":{}}`, `{"message":{"token":""}}`, `{"message":{"token":1}}`, `{"message":{"token":"t","topic":"news"}}`,
		`{"message":{"token":"t"},"other":1}`, `{"message":{"token":"t","other":1}}`, `{"validate_only":1,"message":{"token":"t"}}`,
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

// A message names a token or a FID. A token in fid is UNREGISTERED, as is a FID of an app that is
// not registered; a FID in token is accepted.
func TestMessageNeedsTokenOrFID(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	const fid = "deQ7zv1tRk2bX0mYw9sLpA"
	for _, x := range []struct {
		address string
		status  int
		holds   string
	}{
		{`"token":"` + fid + `:APA91bExample"`, http.StatusOK, "messages/0:"},
		{`"fid":"` + fid + `"`, http.StatusOK, "messages/0:"},
		{`"token":"` + fid + `"`, http.StatusOK, "messages/0:"},
		{`"fid":"` + fid + `:APA91bExample"`, http.StatusNotFound, `"errorCode":"UNREGISTERED"`},
		{`"fid":"deaddead1tRk2bX0mYw9sL"`, http.StatusNotFound, `"errorCode":"UNREGISTERED"`},
		{`"fid":"baddbadd1tRk2bX0mYw9sL"`, http.StatusBadRequest, "INVALID_ARGUMENT"},
		{`"fid":"` + fid + `","token":"t"`, http.StatusBadRequest, "Exactly one of fid, token, topic or condition"},
		{`"fid":"","token":""`, http.StatusBadRequest, "Exactly one of"},
		{`"fid":1`, http.StatusBadRequest, "TYPE_STRING"},
	} {
		if got := c.send(`{"message":{` + x.address + `,"data":{"k":"v"}}}`); got.status != x.status || !strings.Contains(got.body, x.holds) {
			t.Errorf("%s is answered with %+v", x.address, got)
		}
	}
	taken := c.server.Ledger().Entries()
	if len(taken) != 3 || taken[1].FID != fid || taken[1].Token != "" || taken[2].Token != fid || taken[2].FID != "" {
		t.Errorf("the ledger has %+v", taken)
	}
}

// The stand-in judges raw blocks as package push does.
func TestServerAcceptsFormsOfPackagePush(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../push/testdata/fcm_forms.json")
	must(t, err)
	var forms struct{ Valid, Refused []json.RawMessage }
	must(t, json.Unmarshal(text, &forms))
	c := start(t, Options{})
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

func TestScriptedAnswersAreSent(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	for _, x := range []struct {
		answer standin.Answer
		status int
		holds  string
	}{
		{standin.Answer{Status: 400}, 400, "not a valid FCM registration token"},
		{standin.Answer{Status: 400, Reason: InvalidTokenField}, 400, "message.token"},
		{standin.Answer{Status: 401, Reason: "THIRD_PARTY_AUTH_ERROR"}, 401, `"errorCode":"THIRD_PARTY_AUTH_ERROR"`},
		{standin.Answer{Status: 403}, 403, `"errorCode":"SENDER_ID_MISMATCH"`},
		{standin.Answer{Status: 404, Reason: Bare}, 404, "NOT_FOUND"},
		{standin.Answer{Status: 429, Reason: DeviceQuota}, 429, "Device message rate exceeded"},
		{standin.Answer{Status: 504}, 504, "DEADLINE_EXCEEDED"},
		{standin.Answer{Status: 418}, 418, "UNKNOWN"},
		{standin.Answer{Status: 404, Reason: "NEW_CODE"}, 404, `"errorCode":"NEW_CODE"`},
	} {
		c.server.Respond("t", x.answer)
		got := c.send(to("t"))
		if got.status != x.status || !strings.Contains(got.body, x.holds) {
			t.Errorf("%+v: %+v", x.answer, got)
		}
		if x.answer.Reason == Bare && strings.Contains(got.body, "FcmError") {
			t.Errorf("%+v holds an FcmError: %s", x.answer, got.body)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
