package feeding

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/test/rig"
)

const recipe = "../../deploy/feeding/redpanda-connect.yaml"

// A topic stands in for a topic with one partition. A reader begins at the first message that is
// not acknowledged, as a consumer group does after a crash.
type topic struct {
	mu       sync.Mutex
	messages []string
	acked    []bool
	closed   bool // a reader ends at the end, in place of waiting for more
}

// A reader is a consumer of a topic: Redpanda Connect's input redpanda.
type reader struct {
	*topic
	next int
}

func (r *reader) Connect(context.Context) error { return nil }
func (r *reader) Close(context.Context) error   { return nil }

// ReadBatch returns batches of different sizes, as fetches from a partition are.
func (r *reader) ReadBatch(ctx context.Context) (service.MessageBatch, service.AckFunc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == len(r.messages) {
		if r.closed {
			return nil, nil, service.ErrEndOfInput
		}
		r.mu.Unlock()
		<-ctx.Done()
		r.mu.Lock()
		return nil, nil, ctx.Err()
	}
	from := r.next
	r.next = min(len(r.messages), from+1+from%700)
	var batch service.MessageBatch
	for i := from; i < r.next; i++ {
		m := service.NewMessage([]byte(r.messages[i]))
		m.MetaSetMut("kafka_topic", "notifications")
		m.MetaSetMut("kafka_partition", 0)
		m.MetaSetMut("kafka_offset", i)
		batch = append(batch, m)
	}
	to := r.next
	return batch, func(_ context.Context, err error) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := from; i < to && err == nil; i++ {
			r.acked[i] = true
		}
		return nil
	}, nil
}

// read returns a consumer from the first message that is not acknowledged.
func (p *topic) read() *reader {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &reader{topic: p}
	for r.next < len(p.messages) && p.acked[r.next] {
		r.next++
	}
	return r
}

// The inputs are not part of Redpanda Connect's core. These are the fields of their documentation
// that the recipe and the page use; the others are refused here.
var inputs = map[string][]string{
	"redpanda":       {"seed_brokers", "topics", "consumer_group"},
	"aws_sqs":        {"url"},
	"nats_jetstream": {"urls", "subject", "durable"},
}

// stream builds a stream from a configuration, with the topic in place of the broker.
func stream(t *testing.T, p *topic, text string, env map[string]string, log *eventually.Log) (*service.Stream, error) {
	t.Helper()
	environment := service.GlobalEnvironment().Clone()
	for name, fields := range inputs {
		spec := service.NewConfigSpec()
		for _, field := range fields {
			spec = spec.Field(service.NewAnyField(field))
		}
		rig.Must(t, environment.RegisterBatchInput(name, spec, func(*service.ParsedConfig, *service.Resources) (service.BatchInput, error) {
			return service.AutoRetryNacksBatched(p.read()), nil
		}))
	}
	builder := environment.NewStreamBuilder()
	builder.SetEnvVarLookupFunc(func(name string) (string, bool) { value, is := env[name]; return value, is })
	if err := builder.SetYAML(text); err != nil {
		return nil, err
	}
	builder.SetLogger(slog.New(slog.NewTextHandler(log, nil)))
	return builder.Build()
}

// run runs a stream until its end or the context's. It returns a function that waits for the end.
func run(ctx context.Context, t *testing.T, s *service.Stream) (wait func()) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		t.Helper()
		select {
		case err := <-ended:
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		case <-time.After(eventually.Patience):
			t.Fatal("the stream does not end")
		}
	}
}

// A fault answers a request in the place of the API.
type fault func(w http.ResponseWriter, r *http.Request, api http.Handler)

// faults answer every second request, in this order.
var faults = []fault{
	answer(http.StatusServiceUnavailable, `{"title":"Service Unavailable","status":503}`, "2"),
	func(_ http.ResponseWriter, r *http.Request, api http.Handler) { // accepted, and the answer is lost
		api.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	},
	answer(http.StatusTooManyRequests, `{"title":"Too Many Requests","status":429}`, "2"),
	answer(http.StatusBadGateway, `<html>Bad Gateway</html>`, ""),
	answer(http.StatusUnauthorized, `{"title":"Unauthorized","status":401}`, ""),
	func(w http.ResponseWriter, r *http.Request, api http.Handler) { // a part is not known to be accepted
		recorded := httptest.NewRecorder()
		api.ServeHTTP(recorded, r)
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprint(w, strings.Replace(recorded.Body.String(), `"status":202`, `"status":503`, 1))
	},
	func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) },
}

func hashed(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

func answer(status int, body, retryAfter string) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}
}

// A deadLetter is a line of the recipe's output.
type deadLetter struct {
	Place, Error string
	Status       int
	Notification json.RawMessage
}

// The shipped configuration submits each valid notification of a topic once and in its user's
// order: through refusals, lost answers, an API that is killed, and a crash of its own. Invalid
// notifications become dead letters.
func TestConnectFeedsEachNotificationOnce(t *testing.T) {
	t.Parallel()
	shipped, err := os.ReadFile(recipe)
	rig.Must(t, err)
	const token = "a-token-of-the-test-only"
	s, _ := site(t)
	s.Configure(t, "http:\n", "http:\n  tokens: [{name: feed, role: producer, sha256: "+hashed(token)+"}]\n")
	address := redistest.FreeAddress(t)
	s.Env = append(s.Env, "PUSHPACE_HTTP__LISTEN="+address)
	serve := func() *rig.Program {
		p := rig.Start(t, s.Setup, "serve", "--only", "api")
		p.Says(t, 1, "msg=serving")
		return p
	}
	api := serve()

	var want [][2]string
	refused := map[string]string{} // the error by the place
	feed := &topic{}
	add := func(text string) (place string) {
		feed.messages, feed.acked = append(feed.messages, text), append(feed.acked, false)
		return fmt.Sprintf("notifications-0-%d", len(feed.messages)-1)
	}
	valid := func(n int) {
		for range n {
			id, user := fmt.Sprint("n-", len(want)), fmt.Sprint("u", len(want)%7)
			want = append(want, [2]string{id, user})
			add(notification(id, user))
		}
	}
	valid(30)
	add(notification("n-7", "u0")) // again
	refused[add(strings.Replace(notification("n-8", "u1"), `"t"`, `"other"`, 1))] = "already in use"
	refused[add(`{"id":"no-targets","app":"demo","user":"u1","title":"t"}`)] = "/targets: "
	refused[add(strings.Replace(notification("no-app", "u2"), "demo", "dmeo", 1))] = "/app: "
	refused[add("no JSON \x00\xff")] = "must be"
	refused[add(strings.Repeat(" ", 2_000_000))] = "must be"
	refused[add(`null`)] = "must be"
	refused[add(`[]`)] = "must be"
	want = append(want, [2]string{add(strings.Replace(notification("", "u3"), `"id":"",`, "", 1)), "u3"})
	want = append(want, [2]string{add(notification("", "u4")), "u4"}) // with an empty ID
	valid(6000)

	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	script := make(chan fault, 2*len(faults)+1)
	for _, f := range faults {
		script <- f
		script <- func(w http.ResponseWriter, r *http.Request, forward http.Handler) { forward.ServeHTTP(w, r) }
	}
	reached, killed, crash := make(chan bool), make(chan bool), make(chan bool)
	script <- func(http.ResponseWriter, *http.Request, http.Handler) { // the API is killed meanwhile
		close(reached)
		<-killed
		panic(http.ErrAbortHandler)
	}
	var crashing fault
	crashing = func(w http.ResponseWriter, r *http.Request, api http.Handler) { // accepted, and the stream crashes
		recorded := httptest.NewRecorder()
		if api.ServeHTTP(recorded, r); recorded.Code == http.StatusBadGateway { // the API is not back
			script <- crashing
			w.WriteHeader(recorded.Code)
			return
		}
		close(crash)
		<-r.Context().Done()
	}
	var notBefore atomic.Int64 // by the last Retry-After
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if time.Now().UnixNano() < notBefore.Load() {
			t.Error("a request comes before the time of Retry-After")
		}
		defer func() {
			if seconds, err := strconv.Atoi(w.Header().Get("Retry-After")); err == nil {
				notBefore.Store(time.Now().Add(time.Duration(seconds) * time.Second).UnixNano())
			}
		}()
		select {
		case f := <-script:
			f(w, r, forward)
		default:
			forward.ServeHTTP(w, r)
		}
	}))
	defer proxy.Close()
	env := map[string]string{"PUSHPACE_API": proxy.URL, "PUSHPACE_API_TOKEN": token, "DEAD_LETTERS": filepath.Join(t.TempDir(), "letters")}
	var log eventually.Log
	first, err := stream(t, feed, string(shipped), env, &log)
	rig.Must(t, err)
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	wait := run(ctx, t, first)
	step := func(what string, c chan bool) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(eventually.Patience):
			t.Fatalf("%s does not come\n%s", what, &log)
		}
	}
	step("the request after all faults", reached)
	rig.Must(t, api.Cmd.Process.Kill())
	<-api.Done
	script <- crashing
	close(killed)
	serve()
	step("the request whose answer is lost in the crash", crash)
	kill()
	proxy.CloseClientConnections()
	wait()

	feed.mu.Lock()
	feed.closed = true
	feed.mu.Unlock()
	second, err := stream(t, feed, string(shipped), env, &log)
	rig.Must(t, err)
	run(t.Context(), t, second)()
	for i, acked := range feed.acked {
		if !acked {
			t.Fatalf("message %d is not acknowledged\n%s", i, &log)
		}
	}
	accepted(t, s, want)
	for _, status := range []string{"503", "429", "502", "401", "EOF"} {
		if !strings.Contains(log.String(), status) {
			t.Errorf("the log does not name %s:\n%s", status, &log)
		}
	}
	text, err := os.ReadFile(env["DEAD_LETTERS"])
	rig.Must(t, err)
	found := map[string]bool{} // a redelivery may repeat a line
	for line := range strings.Lines(string(text)) {
		var l deadLetter
		if err := json.Unmarshal([]byte(line), &l); err != nil || refused[l.Place] == "" || !strings.Contains(l.Error, refused[l.Place]) || l.Status < 400 || l.Status >= 500 || l.Notification == nil {
			t.Errorf("%v: %s is a dead letter, want the error %q", err, line, refused[l.Place])
		}
		found[l.Place] = true
	}
	if len(found) != len(refused) {
		t.Errorf("the dead letters are of %v, want %v", found, refused)
	}
}

// The page's other inputs fit into the shipped configuration.
func TestConnectReadsFromOtherBrokers(t *testing.T) {
	t.Parallel()
	shipped, err := os.ReadFile(recipe)
	rig.Must(t, err)
	before, rest, _ := strings.Cut(string(shipped), "      redpanda:\n")
	_, after, found := strings.Cut(rest, "    policy:")
	if !found {
		t.Fatalf("%s has no policy after its broker", recipe)
	}
	blocks := strings.Split(strings.TrimSpace(block(t, "Other brokers")), "\n\n")
	if len(blocks) != 2 {
		t.Fatalf("the page has the inputs %q", blocks)
	}
	for _, input := range blocks {
		text := before + "      " + strings.ReplaceAll(input, "\n", "\n      ") + "\n    policy:" + after
		if _, err := stream(t, &topic{closed: true}, text, nil, new(eventually.Log)); err != nil {
			t.Errorf("%v\n%s", err, input)
		}
		if _, err := stream(t, &topic{closed: true}, strings.Replace(text, "durable:", "durably:", 1), nil, new(eventually.Log)); strings.Contains(input, "durable") == (err == nil) {
			t.Errorf("a mistyped field is no error: %v", errors.Unwrap(err))
		}
	}
}
