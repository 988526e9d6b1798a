package tracing_test

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/telemetry/tracing"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Dialing()) }

// A receiver takes OTLP over HTTP.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []*otlp.Span
	status int // of the answers; 0 for OK; set before the first request
}

func newReceiver(t *testing.T) *receiver {
	r := new(receiver)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		text, err := io.ReadAll(request.Body)
		export := new(collector.ExportTraceServiceRequest)
		if err := errors.Join(err, proto.Unmarshal(text, export)); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.status != 0 {
			w.WriteHeader(r.status)
			return
		}
		for _, resource := range export.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

// named returns the spans of that name.
func (r *receiver) named(name string) []*otlp.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.spans), func(s *otlp.Span) bool { return s.Name != name })
}

// one returns the only span of that name.
func (r *receiver) one(t *testing.T, name string) *otlp.Span {
	t.Helper()
	spans := r.named(name)
	if len(spans) != 1 {
		t.Fatalf("%d spans %q, want one", len(spans), name)
	}
	return spans[0]
}

func text(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, r *receiver, ratio float64) *tracing.Tracing {
	t.Helper()
	traces, err := tracing.Start(t.Context(), tracing.Options{Endpoint: r.URL + "/v1/traces", Ratio: ratio, OnChange: func(err error) {
		if err != nil {
			t.Errorf("spans are lost: %v", err)
		}
	}})
	must(t, err)
	return traces
}

// send sends the notification from a producer to the stand-ins, each process with traces of its
// own, and returns after the delivery.
func send(t *testing.T, producers, workers *tracing.Tracing, n *push.Notification) {
	t.Helper()
	client := redistest.Connect(t, &redis.Options{Addr: redistest.Miniredis(t).Addr()})
	apple, err := apnstest.NewServer(apnstest.Options{})
	must(t, err)
	defer apple.Close()
	google, err := fcmtest.NewServer(fcmtest.Options{})
	must(t, err)
	defer google.Close()
	appleConfig, err := apple.WriteCredentials(t.TempDir())
	must(t, err)
	appleSender, err := apns.New(appleConfig)
	must(t, err)
	defer appleSender.Close()
	googleSender := google.NewSender()
	defer googleSender.Close()
	for i, sender := range []providers.Sender{appleSender, googleSender} { // opens a connection before the worker begins
		if o := sender.Send(t.Context(), n, n.Targets[i], providers.Departure{}); o.Kind != providers.Delivered {
			t.Fatalf("before the worker begins: %+v", o)
		}
	}
	limiter, err := throttle.New(client, throttle.Options{})
	must(t, err)
	defer limiter.Close()
	records := store.NewRecords(client, "", 0)
	w, err := worker.New(worker.Options{
		Queue: client, Limiter: limiter, Tracer: workers.Tracer(), Log: slog.New(slog.DiscardHandler),
		Limits:  limits.New(throttle.Policy{MinGap: time.Second}, nil),
		Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.APNs: appleSender, push.FCM: googleSender}},
	})
	must(t, err)
	_, err = producers.Producer(push.NewProducer(client, "", 0)).Enqueue(t.Context(), n)
	must(t, err)
	must(t, w.Start(t.Context()))
	defer func() { must(t, w.Stop(context.Background())) }()
	eventually.Holds(t, "it is delivered", func() bool {
		counts, err := records.Counts(t.Context())
		must(t, err)
		return counts.Ended[push.Delivered] == 1
	})
}

func shipped() *push.Notification {
	return &push.Notification{
		ID: "order-1", App: "shop", User: "canary-user", Category: "orders", Title: "canary-title", Body: "canary-body",
		Targets: []push.Target{{Platform: push.APNs, Token: "5ec7e7ca"}, {Platform: push.FCM, Token: "canary-token"}},
		Data:    map[string]string{"key": "canary-data"},
	}
}

// One trace leads from the producer to the provider's answer.
func TestTraceLeadsFromProducerToProvider(t *testing.T) {
	t.Parallel()
	var r *receiver
	for range 50 { // a push that finds no connection in time is admitted again
		r = newReceiver(t)
		producers, workers := start(t, r, 1), start(t, r, 0) // the producer decides
		send(t, producers, workers, shipped())
		must(t, producers.Close())
		must(t, workers.Close())
		if len(r.named("acquire")) == 1 {
			break
		}
	}

	enqueue, queue, handle, acquire := r.one(t, "enqueue"), r.one(t, "queue"), r.one(t, "handle"), r.one(t, "acquire")
	if len(enqueue.ParentSpanId) != 0 || enqueue.Kind != otlp.Span_SPAN_KIND_PRODUCER {
		t.Errorf("enqueue: %v", enqueue)
	}
	parents := map[*otlp.Span]*otlp.Span{queue: enqueue, handle: enqueue, acquire: handle}
	sends, posts := r.named("send"), r.named("POST")
	if len(sends) != 2 || len(posts) != 2 {
		t.Fatalf("%d sends and %d requests, want one for each target", len(sends), len(posts))
	}
	for _, s := range sends {
		parents[s] = handle
	}
	for _, p := range posts {
		i := slices.IndexFunc(sends, func(s *otlp.Span) bool { return string(s.SpanId) == string(p.ParentSpanId) })
		if i < 0 || p.Kind != otlp.Span_SPAN_KIND_CLIENT || text(p, "server.address") != "127.0.0.1" {
			t.Fatalf("the request is not a send's: %v", p)
		}
		parents[p] = sends[i]
	}
	for span, parent := range parents {
		if string(span.TraceId) != string(enqueue.TraceId) || string(span.ParentSpanId) != string(parent.SpanId) {
			t.Errorf("%s is not a part of %s", span.Name, parent.Name)
		}
		if span.StartTimeUnixNano > span.EndTimeUnixNano || span != queue && span.StartTimeUnixNano < parent.StartTimeUnixNano {
			t.Errorf("%s begins before %s, or ends before it begins", span.Name, parent.Name)
		}
	}
	for want, got := range map[string]string{
		"order-1": text(handle, "messaging.message.id"), "shop": text(handle, "pushpace.app"), "orders": text(enqueue, "pushpace.category"),
		"delivered": text(handle, "pushpace.state"), "granted": text(acquire, "pushpace.decision"), "ok": text(sends[0], "pushpace.reason"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, span := range r.spans {
		if words := strings.ToLower(span.String()); strings.Contains(words, "canary") || strings.Contains(words, "5ec7e7ca") {
			t.Errorf("a span holds a token, a text or a user: %v", span)
		}
	}
}

// A notification of a producer without traces is traced from the worker on, at the configured
// ratio.
func TestTraceWithoutProducerBeginsAtWorker(t *testing.T) {
	t.Parallel()
	for ratio, want := range map[float64]int{0: 0, 1: 1} {
		r := newReceiver(t)
		workers := start(t, r, ratio)
		send(t, nil, workers, shipped())
		must(t, workers.Close())
		// without a producer's trace, the wait has no span
		if got := r.named("handle"); len(got) != want || want == 1 && len(got[0].ParentSpanId) != 0 || len(r.named("queue")) != 0 {
			t.Errorf("ratio %v: %v, and the waits %v", ratio, got, r.named("queue"))
		}
	}
}

// Without a collector everything works, and the loss of spans is reported once.
func TestLostSpansAreReportedOnce(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.status = http.StatusBadRequest
	told := make(chan error, 10)
	traces, err := tracing.Start(t.Context(), tracing.Options{Endpoint: r.URL, Ratio: 1, OnChange: func(err error) { told <- err }})
	must(t, err)
	send(t, traces, traces, shipped())
	must(t, traces.Close())
	if len(told) != 1 || <-told == nil || len(r.named("handle")) != 0 {
		t.Errorf("told %d times more", len(told))
	}
}

// A known caller decides whether a request is recorded; otherwise the ratio does.
func TestKnownCallerDecidesRecording(t *testing.T) {
	t.Parallel()
	const theirs = "0af7651916cd43dd8448eb211c80319c"
	for _, c := range []struct {
		known        bool
		ratio        float64
		flags        string
		recorded, of bool // of their trace
	}{
		{true, 0, "01", true, true}, {true, 1, "00", false, true}, {false, 0, "01", false, false}, {false, 1, "00", true, false},
	} {
		r := newReceiver(t)
		traces := start(t, r, c.ratio)
		mux := http.NewServeMux()
		const route = "GET /v1/notifications/{id}"
		var inside trace.SpanContext
		mux.HandleFunc(route, func(_ http.ResponseWriter, r *http.Request) { inside = trace.SpanContextFromContext(r.Context()) })
		request := httptest.NewRequest(http.MethodGet, "/v1/notifications/canary", nil)
		request.Header.Set("traceparent", "00-"+theirs+"-b7ad6b7169203331-"+c.flags)
		traces.HTTP(mux, func(*http.Request) bool { return c.known }).ServeHTTP(httptest.NewRecorder(), request)
		must(t, traces.Close())
		spans := r.named(route)
		if inside.IsSampled() != c.recorded || (inside.TraceID().String() == theirs) != c.of || (len(spans) == 1) != c.recorded {
			t.Errorf("%+v: %v, recorded %v", c, inside, spans)
		}
		for _, span := range spans {
			if inside.SpanID() != trace.SpanID(span.SpanId) || strings.Contains(span.String(), "canary") {
				t.Errorf("%v in %v", inside, span)
			}
		}
	}
}

func TestNilTracingDoesNothing(t *testing.T) {
	t.Parallel()
	var off *tracing.Tracing
	mux := http.NewServeMux()
	if off.Tracer() != nil || off.HTTP(mux, nil) != http.Handler(mux) || off.Close() != nil {
		t.Error("something is traced")
	}
}

// A batch is one span, the parent of its jobs' spans.
func TestBatchIsOneSpan(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	traces := start(t, r, 1)
	client := redistest.Connect(t, &redis.Options{Addr: redistest.Miniredis(t).Addr()})
	other := shipped()
	other.ID = "order-2"
	for _, result := range traces.Producer(push.NewProducer(client, "", 0)).EnqueueAll(t.Context(), []*push.Notification{shipped(), other}) {
		must(t, result.Err)
	}
	must(t, traces.Close())
	span := r.one(t, "enqueue")
	if span.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("%v", span)
	}
	trace := hex.EncodeToString(span.TraceId)
	for _, id := range []string{"order-1", "order-2"} {
		message, err := client.HGet(t.Context(), shard.NewShards(client, "", 1)[0].QueueKey(push.Default.Queue(), "t:"+id), "msg").Result()
		must(t, err)
		if !strings.Contains(message, trace) {
			t.Errorf("the job of %s does not carry the trace %s", id, trace)
		}
	}
}
