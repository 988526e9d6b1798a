package route

import (
	"testing"
	"time"
)

func TestStagger(t *testing.T) {
	t.Parallel()
	var s Stagger
	const long = 30 * time.Second
	now := time.Unix(1_795_219_200, 0)
	for _, step := range []struct {
		queue string
		left  time.Duration
		want  time.Duration
	}{
		{"bulk", long, long},
		{"bulk", long, long + staggerGap},
		{"bulk", time.Second, long + 2*staggerGap}, // behind the others
		{"critical", time.Second, time.Second},
		{"critical", 0, time.Second + staggerGap},
	} {
		if got := s.Next(step.queue, now, step.left); got != step.want {
			t.Errorf("%+v: %s", step, got)
		}
	}
	now = now.Add(time.Hour)
	if got := s.Next("bulk", now, 0); got != 0 {
		t.Errorf("when nobody waits: %s", got)
	}
}
