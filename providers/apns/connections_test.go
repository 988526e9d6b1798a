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
	"github.com/pushpace/pushpace/providers/providertest"
	"github.com/pushpace/pushpace/providers/standin"
)

func tokenOf(i int) string { return fmt.Sprintf("%064x", i) }

// burst sends n notifications at once and returns their outcomes by token.
func burst(t *testing.T, sender *apns.Sender, n int, departure providers.Departure) map[string]providers.Outcome {
	t.Helper()
	outcomes := make(map[string]providers.Outcome)
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			o := sender.Send(t.Context(), notification(tokenOf(i)), to(tokenOf(i)), departure)
			mu.Lock()
			defer mu.Unlock()
			outcomes[tokenOf(i)] = o
		})
	}
	all.Wait()
	return outcomes
}

func TestBurstUsesFewConnections(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{Streams: 8, Latency: standin.Latency{Typical: time.Millisecond}})
	sender := newSender(t, credentials(t, server))
	const pushes = 400
	for _, o := range burst(t, sender, pushes, providers.Departure{}) {
		providertest.Want(t, o, providers.Delivered, providers.OK, providers.NoConcern)
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

// inFlight sends pushes at once over a warm connection, and returns their outcomes by token. The
// middle push is answered with the fault, while the other pushes are in flight.
func inFlight(t *testing.T, server *apnstest.Server, sender *apns.Sender, fault standin.Fault) map[string]providers.Outcome {
	t.Helper()
	if o := sender.Send(t.Context(), notification("warm"), to("aa"), providers.Departure{}); o.Kind != providers.Delivered {
		t.Fatalf("%+v", o)
	}
	const pushes = 200
	departure := providers.Departure{Started: new(atomic.Int32)}
	for i := range pushes {
		server.Respond(tokenOf(i), standin.Answer{Delay: heldFor})
	}
	server.Respond(tokenOf(pushes/2), standin.Answer{Delay: heldFor / 2, Fault: fault})
	outcomes := burst(t, sender, pushes, departure)
	if n := departure.Started.Load(); n != pushes && fault == standin.GoAwayUnprocessed {
		t.Errorf("%d pushes have started, want %d", n, pushes)
	}
	return outcomes
}

func accepted(server *apnstest.Server) (byToken map[string]int, ids map[string]string) {
	byToken, ids = make(map[string]int), make(map[string]string)
	for _, e := range server.Ledger().Entries() {
		byToken[e.Token]++
		ids[e.Token] = e.APNsID
	}
	return byToken, ids
}

// heldFor is how long pushes stay in flight: long enough to have many in flight on a busy machine.
const heldFor = 300 * time.Millisecond

// A push that APNs took without an answer is ambiguous. Only an ambiguous push can be sent twice,
// with the same apns-id. A push that APNs did not process goes over another connection.
func TestOnlyAmbiguousPushIsSentTwice(t *testing.T) {
	t.Parallel()
	for _, fault := range []standin.Fault{standin.GoAway, standin.Close, standin.GoAwayUnprocessed} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			server := newServer(t, apnstest.Options{})
			sender := newSender(t, credentials(t, server))
			outcomes := inFlight(t, server, sender, fault)
			before, ids := accepted(server)
			ambiguous := 0
			for token, o := range outcomes {
				switch {
				case o.Kind == providers.Delivered:
					if before[token] != 1 {
						t.Errorf("delivered, but accepted %d times", before[token])
					}
					continue
				case fault == standin.GoAwayUnprocessed || o.Kind != providers.Retry || o.Reason != providers.ConnectionLost:
					t.Errorf("%+v", o)
				case o.Ambiguous:
					ambiguous++
				case before[token] != 0:
					t.Errorf("%+v, but it was accepted", o)
				}
				if o := sender.Send(t.Context(), notification(token), to(token), providers.Departure{}); o.Kind != providers.Delivered || before[token] > 0 && o.ProviderID != ids[token] {
					t.Errorf("again: %+v, want the apns-id %s", o, ids[token])
				}
			}
			if (ambiguous == 0) != (fault == standin.GoAwayUnprocessed) {
				t.Errorf("%d are ambiguous", ambiguous)
			}
			after, _ := accepted(server)
			for token, o := range outcomes {
				if n := after[token]; n == 0 || n > 1 && !o.Ambiguous {
					t.Errorf("%+v, accepted %d times in the end", o, n)
				}
			}
		})
	}
}
