package main

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"sync"
	"time"

	"github.com/pushpace/pushpace/push"
)

const (
	// enqueuers is how many notifications are enqueued at once.
	enqueuers = 32
	// enqueueTries is how often a notification is tried while Redis fails, with a
	// pause that grows from enqueuePause.
	enqueueTries = 3
	enqueuePause = 200 * time.Millisecond
)

// An enqueuer is a push.Producer, with traces or without.
type enqueuer interface {
	Enqueue(context.Context, *push.Notification) (push.Receipt, error)
}

// enqueue enqueues one notification. A failure that leaves open whether it was
// taken is tried again under the same ID.
func enqueue(ctx context.Context, p enqueuer, n *push.Notification) (push.Receipt, error) {
	for try := 1; ; try++ {
		receipt, err := p.Enqueue(ctx, n)
		if errors.As(err, new(push.Faults)) {
			return push.Receipt{ID: n.ID}, err // without the generated one
		}
		if err == nil || try == enqueueTries {
			return receipt, err
		}
		n.ID = receipt.ID
		select {
		case <-ctx.Done():
			return receipt, err
		case <-time.After(time.Duration(try) * enqueuePause):
		}
	}
}

// A line is a notification with the number of its line.
type line struct {
	number int
	n      *push.Notification
}

// sendLines enqueues the notification of each line. Those of one user stay in
// order. It stops reading when ctx ends or Redis fails.
func sendLines(ctx context.Context, p enqueuer, in io.Reader, r *receipts) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var queues [enqueuers]chan line
	var wg sync.WaitGroup
	for i := range queues {
		queues[i] = make(chan line, 16)
		wg.Go(func() {
			for l := range queues[i] {
				if ctx.Err() != nil {
					r.add(resultOf(l.number, push.Receipt{ID: l.n.ID}, fmt.Errorf("not enqueued: %w", context.Cause(ctx))))
					continue
				}
				// What is under way ends, so that it is known what became of it.
				receipt, err := enqueue(context.WithoutCancel(ctx), p, l.n)
				if err != nil && !errors.As(err, new(push.Faults)) {
					stop(err)
				}
				r.add(resultOf(l.number, receipt, err))
			}
		})
	}
	last, err := distribute(ctx, newLines(in), &queues, r)
	for _, queue := range queues {
		close(queue)
	}
	wg.Wait()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("stopped at line %d: %w", last, err)
	}
	return nil
}

// distribute reads the lines and gives each user's to the same queue. It answers
// the number of the last line it read.
func distribute(ctx context.Context, lines *lines, queues *[enqueuers]chan line, r *receipts) (int, error) {
	seed := maphash.MakeSeed()
	for ctx.Err() == nil {
		text, number, err := lines.next()
		r.progress(lines.read)
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errLongLine) {
			r.add(resultOf(number, push.Receipt{}, push.Faults{{Problem: fmt.Sprintf("the line is longer than %d bytes", maxLine-2)}}))
			continue
		}
		if err != nil {
			return number, err
		}
		n, err := push.Parse(text)
		if err != nil {
			r.add(resultOf(number, push.Receipt{}, err))
			continue
		}
		select {
		case queues[maphash.String(seed, n.App+"/"+n.User)%enqueuers] <- line{number, n}:
		case <-ctx.Done():
			return number - 1, nil
		}
	}
	return lines.number, nil
}
