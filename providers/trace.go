package providers

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// TraceRequest makes the request, in its own span if the context's span is recorded. The span names
// the host and the status, and not the path, which may hold a device token.
func TraceRequest(r *http.Request, request func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	parent := trace.SpanFromContext(r.Context())
	if !parent.IsRecording() {
		return request(r)
	}
	ctx, span := parent.TracerProvider().Tracer(traceScope).Start(r.Context(), r.Method, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("http.request.method", r.Method), attribute.String("server.address", r.URL.Hostname())))
	defer func() { span.End() }() // if deferred directly, End would record a panic's text
	response, err := request(r.WithContext(ctx))
	if err != nil {
		span.SetStatus(codes.Error, string(TransportOutcome(err).Reason))
		return response, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
	if response.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, "")
	}
	return response, nil
}

// traceScope is the name of the spans' tracer.
const traceScope = "github.com/pushpace/pushpace/providers"
