package worker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// If Redis restarts without its data, the log has one error, which says how many waiting
// notifications were lost. If Redis restarts with its data, the log has no such error.
func TestLossAfterRedisRestartIsLogged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []redistest.Option
		want    int
	}{
		"empty":     {nil, 1},
		"persisted": {[]redistest.Option{redistest.AppendOnly()}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, c.options...)
			client := server.Client(t)
			sums := redistest.Count(client, names("accepted")) // the reads of the sums
			r := newRig(t, client, unlimited)
			log := r.logs()
			r.start()
			for _, id := range []string{"one", "two", "three"} {
				n := to(id)
				n.NotBefore = time.Now().Add(time.Hour)
				r.enqueue(n)
			}
			r.enqueue(to("sent"))
			r.settled(1)
			looks := func(n int64) {
				t.Helper()
				enough := sums.Load() + n
				wait(t, func() bool { return sums.Load() >= enough })
			}
			looks(2)
			server.Restart(t)
			wait(t, func() bool { return r.client.Ping(t.Context()).Err() == nil })
			looks(2)
			if c.want > 0 { // these reads may have failed without a connection
				wait(t, func() bool { return strings.Contains(log.String(), "Redis has lost accepted notifications") })
			}
			told := log.String()
			if got := strings.Count(told, "Redis has lost accepted notifications"); got != c.want {
				t.Errorf("logged %d times, want %d:\n%s", got, c.want, told)
			}
			if c.want > 0 && (!strings.Contains(told, "level=ERROR") || !strings.Contains(told, "about 3 waiting notifications are gone") || !strings.Contains(told, "accepted_before=4 accepted_now=0")) {
				t.Error(told)
			}
			var loss *control.Loss
			recorded := func() (err error) { loss, err = control.ReadLoss(t.Context(), r.client, ""); return err }
			if c.want > 0 {
				wait(t, func() bool { return recorded() == nil && loss != nil })
				if loss.Notifications != 3 || loss.At.IsZero() {
					t.Errorf("recorded is %+v", loss)
				}
			} else if err := recorded(); err != nil || loss != nil {
				t.Errorf("recorded is %+v, %v", loss, err)
			}
			if counts, err := r.records.Counts(t.Context()); err != nil || (counts.Accepted == 4) != (c.want == 0) || counts.Ended[push.Delivered] > 1 {
				t.Errorf("%+v, %v", counts, err)
			}
		})
	}
}
