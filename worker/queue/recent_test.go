package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
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
		e, err := asynqwire.ReadEnvelope(c.message)
		if err != nil || !e.Back.Equal(c.want) {
			t.Errorf("%s: %v, %v, want %v", name, e.Back, err, c.want)
		}
	}
}

func TestRecent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := new(recent[int])
		v.note("old", 1)
		v.note("left", 2)
		time.Sleep(forgetAfter + 1)
		v.note("new", 3)
		for id, want := range map[string]bool{"old": false, "left": false, "new": true, "unknown": false} {
			if _, ok := v.of(id); ok != want {
				t.Errorf("%s is known: %t", id, ok)
			}
		}
		if n, ok := v.take("new"); n != 3 || !ok {
			t.Errorf("%d, %t", n, ok)
		}
		if _, ok := v.take("new"); ok || len(v.known) != 0 {
			t.Errorf("left: %v", v.known)
		}
	})
}
