package route

import (
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/base/slidingstats"
	"github.com/pushpace/pushpace/providers"
)

// A Latency is the latency of the pushes of the last one to two minutes, accurate to an eighth of its
// value. The zero value means no pushes.
type Latency struct {
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
}

// answers counts the outcomes of a route's pushes. The zero value is ready to use.
type answers struct {
	took slidingstats.Histogram // latencies of all pushes

	mu              sync.Mutex
	reasons         []providers.Reason // all but OK; the rest of took counts OK
	counts          []int64            // by index in reasons
	latency, series slidingstats.Series
}

// Answered counts the outcome and latency of a push.
func (r *Route) Answered(reason providers.Reason, took time.Duration) {
	a := &r.answers
	if reason == providers.OK {
		a.took.Add(took)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took.Add(took)
	if i := slices.Index(a.reasons, reason); i >= 0 {
		a.counts[i]++
		return
	}
	a.reasons, a.counts = append(a.reasons, reason), append(a.counts, 1)
}

// addTo adds the recent outcomes and latencies to a status.
func (a *answers) addTo(now time.Time, s *Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.took.Counts()
	a.latency.Sample(now, all)
	took := a.latency.Growth(2)
	s.Latency = Latency{slidingstats.Quantile(took, .5), slidingstats.Quantile(took, .99)}
	ok := int64(0)
	for _, n := range all {
		ok += n
	}
	for _, n := range a.counts {
		ok -= n
	}
	a.series.Sample(now, append([]int64{ok}, a.counts...))
	for i, n := range a.series.Growth(slidingstats.Window) {
		if n == 0 {
			continue
		}
		if s.Answers == nil {
			s.Answers = map[providers.Reason]int64{}
		}
		s.Answers[append([]providers.Reason{providers.OK}, a.reasons...)[i]] = n
	}
}
