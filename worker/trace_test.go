package worker

import (
	"context"
	"testing"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// untraced is what tracing adds to a notification when it is off.
func untraced(ctx context.Context, t tracing, d *delivery) {
	t.delivery(ctx, d, nil)
	_, span := t.start(ctx, "acquire")
	traceDecision(span, throttle.Decision{}, nil)
	_, span = t.start(ctx, "send")
	traceOutcome(span, nil, providers.Outcome{})
	traceEnd(ctx, push.Delivered)
}

// Off, tracing allocates nothing, and asynq's server calls the handler itself.
func TestUntraced(t *testing.T) {
	h, d := &handler{Options: &Options{}}, &delivery{}
	if n := testing.AllocsPerRun(100, func() { untraced(t.Context(), h.tracing, d) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if h.processor() != h {
		t.Error("something stands before the handler")
	}
}

func BenchmarkUntraced(b *testing.B) {
	d := new(delivery)
	b.ReportAllocs()
	for b.Loop() {
		untraced(b.Context(), tracing{}, d)
	}
}
