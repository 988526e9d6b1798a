//go:build e2e && unix

package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pushpace/pushpace/test/rig"
)

// A trace goes from send through the queue to the workers, each of which tells
// the collector its part.
func TestTraces(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	traces := map[string]map[string]bool{} // names of spans, by trace
	services := map[string]bool{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		export := new(collector.ExportTraceServiceRequest)
		if err := proto.Unmarshal(text, export); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range export.ResourceSpans {
			for _, a := range resource.Resource.Attributes {
				if a.Key == "service.name" {
					services[a.Value.GetStringValue()] = true
				}
			}
			for _, scope := range resource.ScopeSpans {
				for _, span := range scope.Spans {
					id := string(span.TraceId)
					if traces[id] == nil {
						traces[id] = map[string]bool{}
					}
					traces[id][span.Name] = true
				}
			}
		}
	}))
	t.Cleanup(receiver.Close)
	s := rig.NewSite(t)
	s.Simulate(t)
	s.Env = append(s.Env, "PUSHPACE_TELEMETRY__TRACING__ENDPOINT="+receiver.URL, "PUSHPACE_TELEMETRY__TRACING__RATIO=1")
	workers := s.Serve(t)
	s.Send(t, rig.Done, rig.Notification("one", "ada", "", "apns", "00fc"))
	workers.Until(t, "the push", func() bool { return len(s.Ledger(t)) == 1 })
	s.Stop(t, workers) // sends the rest
	mu.Lock()
	defer mu.Unlock()
	if len(traces) != 1 || len(services) != 1 || !services["pushpace"] {
		t.Errorf("%d traces of %v, want one", len(traces), services)
	}
	for _, names := range traces {
		for _, name := range []string{"enqueue", "queue", "handle", "acquire", "send", "POST"} {
			if !names[name] {
				t.Errorf("no span %s in %v", name, names)
			}
		}
	}
}
