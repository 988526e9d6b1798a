package apns_test

import (
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

// inFlight sends pushes at once over a warm connection, and returns their outcomes by token. The
// middle push is answered with the fault, while the other pushes are in flight.
func inFlight(t *testing.T, server *apnstest.Server, sender *apns.Sender, fault standin.Fault) map[string]providers.Outcome {
	t.Helper()
	if o := sender.Send(t.Context(), notification("warm"), to("aa"), providers.Departure{}); o.Kind != providers.Delivered {
		t.Fatalf("%+v", o)
	}
	const pushes = 200
	departure := providers.Departure{Started: new(atomic.Int32)}
	outcomes := make(map[string]providers.Outcome)
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range pushes {
		token := fmt.Sprintf("%064x", i)
		answer := standin.Answer{Delay: heldFor}
		if i == pushes/2 {
			answer = standin.Answer{Delay: heldFor / 2, Fault: fault}
		}
		server.Respond(token, answer)
		all.Go(func() {
			o := sender.Send(t.Context(), notification(token), to(token), departure)
			mu.Lock()
			defer mu.Unlock()
			outcomes[token] = o
		})
	}
	all.Wait()
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
