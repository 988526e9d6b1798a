package worker

import (
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
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
		b = protowire.AppendTag(b, lastFailedAtField, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(lastFailed))
	}
	b = protowire.AppendTag(b, 15, protowire.BytesType)
	return string(protowire.AppendString(b, "headers"))
}

func TestWentBack(t *testing.T) {
	t.Parallel()
	first, back := message(0), message(1700000000)
	for name, c := range map[string]struct {
		message string
		want    time.Time
	}{
		"first visit": {first, time.Time{}},
		"back":        {back, time.Unix(1700000000, 0)},
		"empty":       {"", time.Time{}},
		"no message":  {"\xff\xff\xff", time.Time{}},
		"cut off":     {back[:len(back)/2], time.Time{}},
	} {
		if got := wentBack(c.message); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Every job is looked at: nothing is copied for it.
func TestAFirstVisitAllocatesNothing(t *testing.T) {
	job, v := &pulled{id: "n-1", message: message(0)}, new(visits)
	if n := testing.AllocsPerRun(100, func() { v.note(job); v.take(job.id) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestVisits(t *testing.T) {
	t.Parallel()
	v := new(visits)
	v.note(&pulled{id: "first", message: message(0)})
	v.note(&pulled{id: "back", message: message(1700000000)})
	if !v.take("first").IsZero() || v.take("back").IsZero() || !v.take("back").IsZero() || len(v.back) != 0 {
		t.Errorf("left: %v", v.back)
	}
}

func BenchmarkVisit(b *testing.B) {
	job, v := &pulled{id: "n-1", message: message(0)}, new(visits)
	b.ReportAllocs()
	for b.Loop() {
		v.note(job)
		v.take(job.id)
	}
}
