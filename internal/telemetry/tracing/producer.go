package tracing

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pushpace/pushpace/push"
)

// A Producer is a push.Producer that adds the trace to each job.
type Producer struct {
	*push.Producer
	tracer trace.Tracer // nil for none
}

// Producer returns p with traces; without traces for a nil Tracing.
func (t *Tracing) Producer(p *push.Producer) *Producer {
	if t == nil {
		return &Producer{Producer: p}
	}
	return &Producer{p.WithHeaders(headers), t.tracer}
}

// headers returns the context's trace in the W3C headers traceparent and tracestate.
func headers(ctx context.Context) map[string]string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier
}

// Enqueue is push.Producer.Enqueue in a span.
func (p *Producer) Enqueue(ctx context.Context, n *push.Notification) (push.Receipt, error) {
	if p.tracer == nil {
		return p.Producer.Enqueue(ctx, n)
	}
	ctx, span := p.tracer.Start(ctx, "enqueue", trace.WithSpanKind(trace.SpanKindProducer))
	defer func() { span.End() }() // if deferred directly, End would record a panic's text
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

// EnqueueAll is push.Producer.EnqueueAll in one span.
func (p *Producer) EnqueueAll(ctx context.Context, notifications []*push.Notification) []push.Result {
	if len(notifications) == 1 {
		receipt, err := p.Enqueue(ctx, notifications[0])
		return []push.Result{{Receipt: receipt, Err: err}}
	}
	if p.tracer == nil {
		return p.Producer.EnqueueAll(ctx, notifications)
	}
	ctx, span := p.tracer.Start(ctx, "enqueue", trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.Int("messaging.batch.message_count", len(notifications))))
	defer func() { span.End() }()
	results := p.Producer.EnqueueAll(ctx, notifications)
	if slices.ContainsFunc(results, func(r push.Result) bool { return r.Err != nil }) {
		span.SetStatus(codes.Error, "not all accepted")
	}
	return results
}
