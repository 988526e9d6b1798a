package route

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/meter"
)

// A shop is a provider with a bound on the pushes of several workers.
type shop struct {
	t      *testing.T
	limit  int
	shares meter.Shares
	pushes func() time.Duration // duration of the next push
	pauses func() time.Duration // delay before a push and after it

	mu       sync.Mutex
	inFlight map[*shopper]int
	most     int
}

// errLost is a lost reply.
var errLost = errors.New("no answer")

// A shopper is a worker that sends constantly.
type shopper struct {
	*shop
	route *Route
	logs  strings.Builder // its log, once it has ended
	stop  context.CancelFunc
	all   sync.WaitGroup
	dead  bool // under the shop's lock
}

const shopperPlaces = 12 // of one process

func (s *shop) start() *shopper {
	w := &shopper{shop: s}
	routes := New(Config{
		Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.APNs: nil, push.FCM: nil}}, Concurrency: shopperPlaces,
		InFlight: map[string]map[push.Platform]int{"shop": {push.APNs: s.limit}}, Shares: w, Observer: unobserved{},
	})
	w.route = routes.Of("shop")[push.APNs]
	ctx, stop := context.WithCancel(s.t.Context())
	var pushers sync.WaitGroup
	for range 2 * shopperPlaces {
		pushers.Go(func() {
			for ctx.Err() == nil {
				w.push(ctx)
			}
		})
	}
	keeping, leave := context.WithCancel(context.Background())
	w.stop = func() { stop(); pushers.Wait(); leave(); w.all.Wait() }
	for share := range routes.Shares() {
		w.all.Go(func() { share.Keep(keeping, slog.New(slog.NewTextHandler(&w.logs, nil))) })
	}
	s.t.Cleanup(w.stop)
	return w
}

// Renew implements meter.Shares. It fails for a dead worker.
func (w *shopper) Renew(ctx context.Context, key string, c meter.Claim) (int, error) {
	w.mu.Lock()
	dead := w.dead
	w.mu.Unlock()
	if dead {
		return 0, errLost
	}
	return w.shares.Renew(ctx, key, c)
}

func (w *shopper) push(ctx context.Context) {
	needs := []*Bulkhead{w.route.Bulkhead}
	if Acquire(ctx, needs, push.Default) != nil {
		return
	}
	defer Release(needs)
	time.Sleep(w.pauses()) // before the push leaves, and while its end is recorded
	defer func() { time.Sleep(w.pauses()) }()
	pushing, _, over, ok := w.route.Within(ctx)
	defer over()
	if !ok {
		time.Sleep(10 * time.Millisecond)
		return
	}
	w.note(1)
	defer w.note(-1)
	timer := time.NewTimer(w.pushes())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-pushing.Done():
		time.Sleep(200 * time.Millisecond) // until the provider knows
	}
}

// note adds n to the pushes in flight at the provider.
func (w *shopper) note(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return
	}
	w.inFlight[w] += n
	sum := w.sum()
	if w.most = max(w.most, sum); sum > w.limit {
		w.t.Errorf("%d are in flight, of %d", sum, w.limit)
	}
}

func (s *shop) sum() int {
	sum := 0
	for _, n := range s.inFlight {
		sum += n
	}
	return sum
}

// kill stops a worker as SIGKILL does.
func (w *shopper) kill() {
	w.mu.Lock()
	w.dead = true
	delete(w.inFlight, w)
	w.mu.Unlock()
	w.stop()
}

// until waits until the worker has n pushes in flight, and returns the duration.
func (s *shop) until(w *shopper, n int) time.Duration {
	s.t.Helper()
	began := time.Now()
	for range 1000 {
		synctest.Wait()
		s.mu.Lock()
		got := s.inFlight[w]
		s.mu.Unlock()
		if got == n {
			return time.Since(began)
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("a worker never has %d in flight: %v", n, s.inFlight)
	return 0
}

func newShop(t *testing.T, limit int, shares meter.Shares, pushes func() time.Duration) *shop {
	return &shop{t: t, limit: limit, shares: shares, pushes: pushes, pauses: func() time.Duration { return 0 }, inFlight: map[*shopper]int{}}
}

// Without a reply a worker uses its share until the lease ends. Then it cuts off its pushes in
// flight and sends nothing. It logs once that it stops, and once that it sends again.
func TestShareWithoutRenewalEndsWithLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		shares := &lossy{Shares: meter.NewRedisShares(redistest.InBubble(t), ""), lose: away.Load}
		t.Cleanup(shares.late.Wait)
		s := newShop(t, 4, shares, func() time.Duration { return time.Hour })
		a := s.start()
		s.until(a, 4)
		away.Store(true)
		lost := time.Now()
		s.until(a, 0)
		if took := time.Since(lost); took < time.Second || took > 3*time.Second {
			t.Errorf("the pushes in flight are cut off after %s", took)
		}
		time.Sleep(MaxWait)
		if s := a.route.status(time.Now(), stateView{}); s.Share == nil || *s.Share != 0 {
			t.Errorf("the status has a share of %v", s.Share)
		}
		if a.route.Bulkhead.capacity(1, time.Now()) > 0 {
			t.Error("jobs are still pulled")
		}
		away.Store(false)
		s.until(a, 4)
		a.kill()
		logs := a.logs.String()
		for _, words := range []string{"in flight is not renewed", "in flight is renewed again"} {
			if strings.Count(logs, words) != 1 || !strings.Contains(logs, "app=shop platform=apns") {
				t.Errorf("the log does not say %q once: %s", words, logs)
			}
		}
	})
}

// A process that was suspended with its timers sends nothing once its lease has ended.
func TestSuspendedProcessSendsNothingAfterLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &Route{App: "shop", Platform: push.APNs, Bulkhead: newBulkhead(4)}
		r.share = newShare(r, meter.NewRedisShares(redistest.InBubble(t), ""), 4)
		within := func(want bool) {
			t.Helper()
			ctx, _, over, ok := r.Within(t.Context())
			defer over()
			if ok != want || ok && ctx.Err() != nil {
				t.Errorf("within its share: %t, %v", ok, ctx.Err())
			}
		}
		within(false) // before the first lease
		if err := r.share.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		within(true)
		r.share.mu.Lock()
		r.share.until = time.Now()
		r.share.mu.Unlock()
		within(false)
	})
}

// Pushes of an expired lease must not continue in the next lease, and must all end before it begins:
// another worker may have the permits now.
func TestLeaseBeginsAfterPushesOfLastLease(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]time.Duration{"late renewal": 0, "late reply": 700 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			shares := &lossy{Shares: meter.NewRedisShares(redistest.InBubble(t), ""), lose: func() bool { return false }}
			r := &Route{App: "shop", Platform: push.APNs, Bulkhead: newBulkhead(4)}
			r.share = newShare(r, shares, 4)
			if err := r.share.renew(t.Context()); err != nil || !r.Bulkhead.acquire(t.Context(), 1) {
				t.Fatal(name, err)
			}
			time.Sleep(3*time.Second - late/2)
			go func() {
				time.Sleep(late / 2)
				other := meter.NewLease(shares.Shares, r.Name(), 4)
				if part, _, err := other.Renew(t.Context(), 0, 4); part != 4 || err != nil {
					t.Error(name, part, err)
				}
			}()
			synctest.Wait()
			shares.slow.Store(int64(late))
			if err := r.share.renew(t.Context()); !errors.Is(err, errInFlight) {
				t.Errorf("%s: %v", name, err)
			}
			if _, _, over, ok := r.Within(t.Context()); ok {
				over()
				t.Errorf("%s: the worker sends", name)
			}
			r.Bulkhead.release()
			shares.slow.Store(0)
			if err := r.share.renew(t.Context()); err != nil || r.Bulkhead.size() != 0 {
				t.Errorf("%s: %d permits, %v", name, r.Bulkhead.size(), err)
			}
		})
	}
}

// A lossy loses and delays claims and replies.
type lossy struct {
	meter.Shares
	lose func() bool
	slow atomic.Int64 // delay of a claim
	late sync.WaitGroup
}

func (l *lossy) Renew(ctx context.Context, key string, c meter.Claim) (int, error) {
	if l.lose() {
		if l.lose() {
			l.late.Go(func() {
				time.Sleep(1500 * time.Millisecond)
				_, _ = l.Shares.Renew(context.Background(), key, c)
			})
		}
		<-ctx.Done()
		return 0, errLost
	}
	time.Sleep(time.Duration(l.slow.Load()))
	part, err := l.Shares.Renew(ctx, key, c)
	if l.lose() {
		<-ctx.Done()
		return 0, errLost
	}
	return part, err
}

// Workers start, stop and die, and claims and replies get lost or late. The pushes in flight
// never exceed the bound, and reach it when the faults are over.
func TestSharesUnderFaultsNeverExceedBound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(troubles) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			rng := rand.New(rand.NewPCG(seed, 13))
			random := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return rng.IntN(n)
			}
			var calm atomic.Bool
			shares := &lossy{Shares: meter.NewRedisShares(redistest.InBubble(t), ""), lose: func() bool { return !calm.Load() && random(4) == 0 }}
			t.Cleanup(shares.late.Wait)
			s := newShop(t, 1+random(20), shares, func() time.Duration { return time.Duration(1+random(2000)) * time.Millisecond })
			s.pauses = func() time.Duration {
				if calm.Load() {
					return 0
				}
				return time.Duration(random(4)/3*random(5000)) * time.Millisecond
			}
			workers := []*shopper{s.start()}
			for range 60 {
				time.Sleep(time.Duration(random(1500)) * time.Millisecond)
				i := random(len(workers))
				w := workers[i]
				switch random(6) {
				case 0:
					w.kill()
				case 1:
					w.stop()
				case 2:
					if len(workers) < 6 {
						workers = append(workers, s.start())
					}
					continue
				default:
					continue
				}
				workers[i] = s.start()
			}
			for _, w := range workers[1:] {
				w.kill()
			}
			calm.Store(true)
			s.until(workers[0], min(s.limit, shopperPlaces))
		})
	}
}
