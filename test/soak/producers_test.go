//go:build soak && unix

package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
)

func (s *soak) enqueue(ctx context.Context, n *push.Notification) error {
	_, err := push.NewProducer(s.Client, "", 0).Enqueue(ctx, n)
	return err
}

func (s *soak) post(_ context.Context, n *push.Notification) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if status, answer := s.call(http.MethodPost, "/v1/notifications", string(text)); status != http.StatusOK && status != http.StatusAccepted {
		return fmt.Errorf("%d: %s", status, answer)
	}
	return nil
}

// hand calls enqueue with the notification until a call succeeds, for at most a minute, and records
// the acceptance.
func (s *soak) hand(t *testing.T, n *push.Notification, enqueue func(context.Context, *push.Notification) error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := enqueue(ctx, n)
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			t.Errorf("%s is not accepted: %v", n.ID, err)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted[n.ID] = true
}

// take configures the providers' odd answers to the next notification, and returns the notification.
func (s *soak) take() *push.Notification {
	i := int(s.next.Add(1)) - 1
	n, notBefore := soakNotification(s.seed, i)
	if notBefore > 0 {
		n.NotBefore = time.Now().Add(notBefore)
	}
	for _, target := range n.Targets {
		answers := oddAnswers(s.seed, i, n, target.Platform)
		if len(answers) == 0 {
			continue
		}
		if target.Platform == push.APNs {
			s.APNs.Respond(target.Token, answers...)
		} else {
			s.FCM.Respond(target.Token, answers...)
		}
	}
	return n
}

// produce enqueues notifications from Go and by HTTP until ctx ends. It finishes the calls in flight.
func (s *soak) produce(ctx context.Context, t *testing.T) {
	const producers = 4
	tick := time.NewTicker(time.Second * producers * 5 / 4 / soakRate)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		enqueue := s.enqueue
		if i%3 == 0 {
			enqueue = s.post
		}
		s.hand(t, s.take(), enqueue)
	}
}

// produceLines enqueues files with send until ctx ends; send is killed now and then.
func (s *soak) produceLines(ctx context.Context, t *testing.T) {
	const lines = 20
	r := rand.New(rand.NewPCG(s.seed, ^uint64(0)))
	tick := time.NewTicker(time.Second * 5 * lines / soakRate)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var input bytes.Buffer
		var ids []string
		for range lines {
			n := s.take()
			ids = append(ids, n.ID)
			text, err := json.Marshal(n)
			if err != nil {
				t.Error(err)
				return
			}
			input.Write(append(text, '\n'))
		}
		for try := 1; ; try++ {
			within := 20 * time.Second
			if r.IntN(3) == 0 {
				within = time.Duration(20+r.IntN(200)) * time.Millisecond
			}
			status, out := s.program(within, bytes.NewReader(input.Bytes()), "send", "--file", "-")
			if status == rig.Done {
				s.mu.Lock()
				for _, id := range ids {
					s.accepted[id] = true
				}
				s.mu.Unlock()
				break
			}
			if try == 100 {
				t.Errorf("a file is not accepted: %s", out)
				return
			}
			<-time.After(100 * time.Millisecond)
		}
	}
}
