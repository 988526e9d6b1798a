// Package tracing sends traces of notifications, from their producer to the
// provider, to an OpenTelemetry collector.
package tracing

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options are the arguments of Start.
type Options struct {
	// Endpoint is the URL that takes OTLP over HTTP, path included. Required. OpenTelemetry's own
	// variables add headers, certificates and attributes: OTEL_EXPORTER_OTLP_HEADERS,
	// OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_RESOURCE_ATTRIBUTES.
	Endpoint string
	// Ratio is the share of the traces from this process that are recorded, 0 to 1. A trace that began
	// in another process is recorded if that process records it.
	Ratio float64
	// Version is the program's version.
	Version string
	// OnChange is called with the cause when spans begin to get lost, and with nil when they
	// arrive again. Required.
	OnChange func(error)
}

// Tracing makes spans and sends them in the background; if the collector is slow or away, it
// drops spans. A nil Tracing does nothing.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

const (
	scope = "github.com/pushpace/pushpace"
	// exportTimeout bounds a request to the collector, closeTimeout the last request.
	exportTimeout = 5 * time.Second
	closeTimeout  = 2 * time.Second
)

// Start returns a Tracing. It does not connect yet.
func Start(ctx context.Context, o Options) (*Tracing, error) {
	otlp, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Endpoint), otlptracehttp.WithTimeout(exportTimeout))
	if err != nil {
		return nil, fmt.Errorf("start tracing: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "pushpace"), attribute.String("service.version", o.Version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("start tracing: describe this process: %w", err)
	}
	provider := sdk.NewTracerProvider(
		sdk.WithResource(about),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(o.Ratio))),
		sdk.WithBatcher(&exporter{SpanExporter: otlp, onChange: o.OnChange}, sdk.WithExportTimeout(2*exportTimeout)),
	)
	return &Tracing{provider, provider.Tracer(scope)}, nil
}

// Close sends the remaining spans, within two seconds.
func (t *Tracing) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}

// Tracer returns the workers' tracer; nil for a nil Tracing.
func (t *Tracing) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.tracer
}

// HTTP makes a span for every request that next answers: in the trace of the request's headers if
// the caller is known, otherwise in a new trace, so that only known callers choose the recorded
// traces. next is an http.ServeMux, which writes the route into the request: no handler in between
// may replace the request.
func (t *Tracing) HTTP(next http.Handler, known func(*http.Request) bool) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if r.Header.Get("Traceparent") != "" && known(r) {
			ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
		}
		ctx, span := t.tracer.Start(ctx, "HTTP", trace.WithSpanKind(trace.SpanKindServer))
		defer func() { span.End() }() // if deferred directly, End would record a panic's text
		r = r.WithContext(ctx)
		next.ServeHTTP(w, r)
		if r.Pattern != "" {
			span.SetName(r.Pattern)
			span.SetAttributes(attribute.String("http.route", r.Pattern))
		}
	})
}

// An exporter reports when it begins to fail, and when it works again.
type exporter struct {
	sdk.SpanExporter
	onChange func(error)
	failing  atomic.Bool
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if failing := err != nil; e.failing.Swap(failing) != failing {
		e.onChange(err)
	}
	return nil // the SDK would only print it
}
