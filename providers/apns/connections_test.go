package apns_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/standin"
)

// burst sends n notifications at once and returns their outcomes by kind.
func burst(t *testing.T, sender *apns.Sender, n int) map[providers.Kind]int {
	t.Helper()
	kinds := make(map[providers.Kind]int)
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			o := sender.Send(t.Context(), notification(fmt.Sprint("n", i)), to(fmt.Sprintf("%064x", i)), providers.Departure{})
			mu.Lock()
			defer mu.Unlock()
			kinds[o.Kind]++
		})
	}
	all.Wait()
	return kinds
}

func TestBurstUsesFewConnections(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{Streams: 8, Latency: standin.Latency{Typical: time.Millisecond}})
	sender := newSender(t, credentials(t, server))
	const pushes = 400
	if kinds := burst(t, sender, pushes); kinds[providers.Delivered] != pushes {
		t.Errorf("%v", kinds)
	}
	count := server.Count()
	if count.Connections > 4 || server.Ledger().Len() != pushes {
		t.Errorf("%+v, %d accepted", count, server.Ledger().Len())
	}
}

func TestShutdownAnswerOpensNewConnection(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	sender := newSender(t, credentials(t, server))
	for _, reason := range []string{"Shutdown", "IdleTimeout", "UnrelatedKeyIdInToken"} {
		before := server.Count().Connections
		server.Respond("00aa", standin.Answer{}, standin.Answer{Status: 400, Reason: reason})
		for _, want := range []providers.Kind{providers.Delivered, providers.Retry, providers.Delivered} {
			if o := sender.Send(t.Context(), notification("n1"), to("00aa"), providers.Departure{}); o.Kind != want {
				t.Errorf("%s: %+v", reason, o)
			}
		}
		if after := server.Count().Connections; after != max(before, 1)+1 {
			t.Errorf("%s: %d connections after %d", reason, after, before)
		}
	}
}

// A first push without an answer delays the next push by a second only.
func TestUnansweredPushDelaysNextBySecond(t *testing.T) {
	t.Parallel()
	accepted := make(chan struct{}, 2)
	server := newServer(t, apnstest.Options{Ledger: standin.NewLedger(func(standin.Entry) error {
		accepted <- struct{}{}
		return nil
	})})
	sender := newSender(t, credentials(t, server))
	ctx, cancel := context.WithCancel(t.Context())
	stuck := make(chan providers.Outcome)
	go func() { stuck <- sender.Send(ctx, notification("n1"), to("fade0b1a"), providers.Departure{}) }()
	<-accepted
	if o := sender.Send(t.Context(), notification("n2"), to("00aa"), providers.Departure{}); o.Kind != providers.Delivered {
		t.Errorf("%+v", o)
	}
	cancel()
	if o := <-stuck; o.Reason != providers.Cancelled {
		t.Errorf("%+v", o)
	}
}

// Requests that wait for a stuck connection are not ambiguous.
func TestStuckConnectionCarriesFewRequests(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	config := credentials(t, server)
	config.Timeout = 2500 * time.Millisecond
	sender := newSender(t, config)
	const pushes = 200
	var doubted atomic.Int64
	var all sync.WaitGroup
	for i := range pushes {
		all.Go(func() {
			o := sender.Send(t.Context(), notification(fmt.Sprint("n", i)), to("fade0b1a"), providers.Departure{})
			if o.Reason != providers.TimedOut {
				t.Errorf("%+v", o)
			}
			if o.Ambiguous {
				doubted.Add(1)
			}
		})
	}
	all.Wait()
	if received := int64(server.Count().Received); doubted.Load() < received || doubted.Load() > pushes/4 {
		t.Errorf("%d of %d were sent, %d are ambiguous", received, pushes, doubted.Load())
	}
}
