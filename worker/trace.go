package worker

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// A visit adds two spans to the trace of its task's headers: "queue", the wait before, and "handle".
// "handle" contains "acquire" and a "send" for each target; "send" contains the provider's request. No
// span may contain a user, a token or a notification's text.

// tracing makes spans; the zero value makes no spans.
type tracing struct{ trace.Tracer }

// traced is a handler with a span around each visit.
type traced struct{ *handler }

// processor returns the queue's handler, without spans if there is no Tracer.
func (h *handler) processor() queue.Handler {
	if h.tracing.Tracer == nil {
		return h
	}
	return traced{h}
}

// Take implements queue.Handler.
func (t traced) Take(job queue.Job) queue.Work {
	work := t.handler.Take(job)
	return func(ctx context.Context) queue.Result { return t.trace(ctx, job.Headers, work) }
}

func (t traced) trace(ctx context.Context, headers map[string]string, work queue.Work) queue.Result {
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(headers))
	ctx, span := t.tracing.Start(ctx, "handle", trace.WithSpanKind(trace.SpanKindConsumer))
	defer func() { span.End() }() // a deferred End would record a panic's text
	to := work(ctx)
	if back, returns := to.(queue.Postponed); returns {
		span.SetAttributes(attribute.Float64("pushpace.back_after_s", back.After.Seconds()))
		if back.Failed {
			span.SetStatus(codes.Error, "the job is retried")
		}
	}
	return to
}

// delivery sets the attributes of the visit's span, and adds the span of the wait to the producer's
// trace.
func (t tracing) delivery(ctx context.Context, d *delivery, job *queue.Job) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	now := time.Now()
	waited := d.waited(now)
	span.SetAttributes(
		attribute.String("messaging.message.id", d.ID), attribute.String("messaging.destination.name", d.queue),
		attribute.String("pushpace.app", d.App), attribute.String("pushpace.category", d.Category),
		attribute.Float64("pushpace.queue_wait_s", waited.Seconds()),
	)
	producer := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(job.Headers))
	if trace.SpanContextFromContext(producer).IsRemote() {
		_, wait := t.Start(producer, "queue", trace.WithTimestamp(now.Add(-waited)))
		wait.End(trace.WithTimestamp(now))
	}
}

// start begins a span inside the visit's span, or an empty span if there is no Tracer.
func (t tracing) start(ctx context.Context, name string) (context.Context, trace.Span) {
	if t.Tracer == nil {
		return ctx, noSpan
	}
	return t.Start(ctx, name)
}

var noSpan = trace.SpanFromContext(context.Background())

// traceDecision ends the "acquire" span.
func traceDecision(span trace.Span, decision throttle.Decision, err error) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, "the limiter check failed")
		return
	}
	span.SetAttributes(
		attribute.String("pushpace.decision", decision.Status.String()), attribute.Float64("pushpace.left_s", decision.Left.Seconds()),
	)
	if decision.Rule != "" {
		span.SetAttributes(attribute.String("pushpace.scope", decision.Scope), attribute.String("pushpace.rule", decision.Rule))
	}
}

// traceOutcome ends the "send" span of a target.
func traceOutcome(span trace.Span, r *route.Route, o providers.Outcome) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String("pushpace.app", r.App), attribute.String("pushpace.platform", string(r.Platform)),
		attribute.String("pushpace.outcome", o.Kind.String()), attribute.String("pushpace.reason", string(o.Reason)),
	)
	if o.Kind != providers.Delivered {
		span.SetStatus(codes.Error, string(o.Reason))
	}
}

// traceEnd sets the notification's state on the visit's span.
func traceEnd(ctx context.Context, state push.State) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("pushpace.state", string(state)))
	}
}
