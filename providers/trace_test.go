package providers

import (
	"net/http"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A panic's text may hold secrets: no span records it.
func TestPanicTextIsNotTraced(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	ctx, parent := provider.Tracer("").Start(t.Context(), "send")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://127.0.0.1/", nil)
	must(t, err)
	func() {
		defer func() {
			if recover() != "canary" {
				t.Error("the panic is lost")
			}
		}()
		_, _ = TraceRequest(request, func(*http.Request) (*http.Response, error) { panic("canary") })
	}()
	parent.End()
	ended := spans.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans have ended", len(ended))
	}
	for _, span := range ended {
		if len(span.Events()) > 0 {
			t.Errorf("%s records %v", span.Name(), span.Events())
		}
	}
}
