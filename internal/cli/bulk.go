package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/push"
)

const (
	// enqueueTries is the number of attempts per notification while Redis fails. The pause
	// between attempts grows from enqueuePause.
	enqueueTries = 3
	enqueuePause = 200 * time.Millisecond
	// enqueueTriesLater is the number of attempts when the API's answer has a Retry-After.
	enqueueTriesLater = 5
	// batchSize is the most notifications in one call, and batches the most calls in flight.
	batchSize = 250
	batches   = 8
	// batchPause is the longest wait to fill a batch. A user's burst then reaches the queue in
	// one call, and one worker takes it.
	batchPause = 2 * time.Millisecond
)

// enqueue enqueues notifications, each user's in order. If a failure leaves open whether a
// notification was accepted, enqueue retries it under the same ID. When ctx ends, calls in flight
// still finish, so that each result is known.
func enqueue(ctx context.Context, b *apiclient.Client, all []item) []operate.Result {
	results := make([]operate.Result, len(all))
	todo := make([]int, len(all))
	for i := range all {
		todo[i] = i
	}
	for try := 1; ; try++ {
		batch := make([]apiclient.Item, len(todo))
		for j, i := range todo {
			batch[j] = all[i].Item
		}
		again := todo[:0:0]
		var pause time.Duration
		for j, r := range b.Enqueue(context.WithoutCancel(ctx), batch) {
			i := todo[j]
			if errors.As(r.Err, new(push.Faults)) && !all[i].named {
				r.ID = ""
			}
			results[i] = r
			if wait, ok := retryAfter(r.Err, try); ok {
				again, pause = append(again, i), max(pause, wait)
			}
		}
		if todo = again; len(todo) == 0 {
			return results
		}
		select {
		case <-ctx.Done():
			return results
		case <-time.After(pause):
		}
	}
}

// refused reports whether the error concerns this notification alone: it is invalid, or its ID is
// in use.
func refused(err error) bool {
	return errors.As(err, new(push.Faults)) || errors.Is(err, push.ErrConflict)
}

// retryAfter reports whether to retry after this error of the given attempt, and after how long.
func retryAfter(err error, try int) (time.Duration, bool) {
	if err == nil || refused(err) {
		return 0, false
	}
	var p *apiclient.Problem
	if errors.As(err, &p) && (!p.Again() || p.RetryAfter > 0) {
		return p.RetryAfter, p.Again() && try < enqueueTriesLater
	}
	return time.Duration(try) * enqueuePause, try < enqueueTries
}

// An item is a notification to enqueue.
type item struct {
	apiclient.Item
	named bool   // by its producer
	user  string // whose notifications stay in order
}

// itemOf returns the notification as an item. It makes an ID if there is none.
func itemOf(n *push.Notification) item {
	named := n.ID != ""
	if !named {
		n.ID = uuid.Must(uuid.NewV7()).String()
	}
	return item{apiclient.ItemOf(n), named, n.App + "/" + n.User}
}

// readItem reads a line's notification as JSON; the API validates the notification. The item does
// not refer to text.
func readItem(text []byte) (item, error) {
	var n struct{ ID, App, User string }
	if err := json.Unmarshal(text, &n); err == nil && n.ID != "" {
		return item{apiclient.Item{ID: n.ID, JSON: bytes.Clone(text)}, true, n.App + "/" + n.User}, nil
	}
	whole, err := push.Parse(text)
	if err != nil {
		return item{}, err
	}
	return itemOf(whole), nil
}

// A line is a notification with the number of its line.
type line struct {
	number int
	item
}

// sendLines enqueues the notification of each line, each user's in order. It stops reading when
// ctx ends or the API fails.
func sendLines(ctx context.Context, b *apiclient.Client, in io.Reader, r *receipts) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queues := make([]chan line, batches)
	var wg sync.WaitGroup
	for i := range queues {
		queues[i] = make(chan line, batchSize)
		wg.Go(func() {
			for first := range queues[i] {
				batch := gather(first, queues[i])
				if ctx.Err() != nil {
					for _, l := range batch {
						r.add(resultOf(l.number, push.Result{Receipt: push.Receipt{ID: l.ID}, Err: fmt.Errorf("not enqueued: %w", context.Cause(ctx))}))
					}
					continue
				}
				items := make([]item, len(batch))
				for j, l := range batch {
					items[j] = l.item
				}
				for j, result := range enqueue(ctx, b, items) {
					if result.Err != nil && !refused(result.Err) {
						stop(result.Err)
					}
					r.add(resultOf(batch[j].number, result.Result, result.Warnings...))
				}
			}
		})
	}
	last, err := distribute(ctx, newLines(in), queues, r)
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

// gather returns the first line and all lines that follow without delay.
func gather(first line, queue <-chan line) []line {
	batch := []line{first}
	pause := time.NewTimer(batchPause)
	defer pause.Stop()
	for len(batch) < batchSize {
		select {
		case l, ok := <-queue:
			if !ok {
				return batch
			}
			batch = append(batch, l)
		case <-pause.C:
			return batch
		}
	}
	return batch
}

// distribute reads the lines and puts each user's on the same queue. It returns the number of the
// last line.
func distribute(ctx context.Context, lines *lines, queues []chan line, r *receipts) (int, error) {
	refuse := func(number int, faults error) { r.add(resultOf(number, push.Result{Err: faults})) }
	seed := maphash.MakeSeed()
	for ctx.Err() == nil {
		text, number, err := lines.next()
		r.progress(lines.read)
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errLongLine) {
			refuse(number, push.Faults{{Problem: fmt.Sprintf("the line is longer than %d bytes", maxLine-2)}})
			continue
		}
		if err != nil {
			return number, err
		}
		one, err := readItem(text)
		if err != nil {
			refuse(number, err)
			continue
		}
		select {
		case queues[maphash.String(seed, one.user)%uint64(len(queues))] <- line{number, one}:
		case <-ctx.Done():
			return number - 1, nil
		}
	}
	return lines.number, nil
}
