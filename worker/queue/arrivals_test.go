package queue

import (
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pushpace/pushpace/push"
)

// message is asynq's, as far as it matters.
func message(lastFailed int64) string {
	b := protowire.AppendTag(nil, 1, protowire.BytesType)
	b = protowire.AppendString(b, "pushpace:notification")
	b = protowire.AppendTag(b, 2, protowire.BytesType)
	b = protowire.AppendBytes(b, make([]byte, 1000))
	b = protowire.AppendTag(b, 6, protowire.VarintType)
	b = protowire.AppendVarint(b, 3)
	if lastFailed != 0 {
		b = protowire.AppendTag(b, 11, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(lastFailed))
	}
	header := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "traceparent")
	header = protowire.AppendString(protowire.AppendTag(header, 2, protowire.BytesType), "00-…")
	b = protowire.AppendTag(b, 15, protowire.BytesType)
	return string(protowire.AppendBytes(b, header))
}

func TestWentBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		message string
		want    time.Time
	}{
		"first visit": {message(0), time.Time{}},
		"back":        {message(1700000000), time.Unix(1700000000, 0)},
	} {
		e, err := push.ReadEnvelope(c.message)
		if err != nil || !e.Back.Equal(c.want) {
			t.Errorf("%s: %v, %v, want %v", name, e.Back, err, c.want)
		}
	}
}

// Every job is looked at: nothing is copied for it.
func TestAFirstVisitAllocatesNothing(t *testing.T) {
	job, v := &pulled{id: "n-1", message: message(0)}, new(arrivals)
	if n := testing.AllocsPerRun(100, func() { _, _ = push.ReadEnvelope(job.message); v.note(job); v.take(job.id) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestArrivals(t *testing.T) {
	t.Parallel()
	v := new(arrivals)
	at := time.Unix(1700000000, 0)
	v.note(&pulled{id: "first"})
	v.note(&pulled{id: "back", back: at})
	v.note(&pulled{id: "foreign", foreign: true})
	if v.take("first") != (arrival{}) || !v.take("back").back.Equal(at) || v.take("back") != (arrival{}) || !v.take("foreign").foreign || len(v.known) != 0 {
		t.Errorf("left: %v", v.known)
	}
}

func BenchmarkArrival(b *testing.B) {
	job, v := &pulled{id: "n-1", message: message(0)}, new(arrivals)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = push.ReadEnvelope(job.message)
		v.note(job)
		v.take(job.id)
	}
}
