package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pushpace/pushpace/push"
)

// A Producer is a push.Producer whose jobs carry the trace that they belong to.
type Producer struct {
	*push.Producer
	tracer trace.Tracer // nil for none
}

// Producer answers the producer with traces; it works without for a nil Tracing.
func (t *Tracing) Producer(p *push.Producer) *Producer {
	if t == nil {
		return &Producer{Producer: p}
	}
	return &Producer{p.WithHeaders(headers), t.tracer}
}

// headers are the context's trace as W3C writes it: traceparent and tracestate.
func headers(ctx context.Context) map[string]string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier
}

// Enqueue is push.Producer's, as a span.
func (p *Producer) Enqueue(ctx context.Context, n *push.Notification) (push.Receipt, error) {
	if p.tracer == nil {
		return p.Producer.Enqueue(ctx, n)
	}
	ctx, span := p.tracer.Start(ctx, "enqueue", trace.WithSpanKind(trace.SpanKindProducer))
	defer func() { span.End() }() // deferred itself, it would tell what a panic says
	receipt, err := p.Producer.Enqueue(ctx, n)
	switch {
	case !span.IsRecording():
	case err != nil:
		span.SetStatus(codes.Error, "not accepted")
	default:
		span.SetAttributes(attribute.String("messaging.message.id", receipt.ID), attribute.Bool("pushpace.known", receipt.Known),
			attribute.String("pushpace.app", n.App), attribute.String("pushpace.category", n.Category))
	}
	return receipt, err
}
