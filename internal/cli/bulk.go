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
	// enqueueTries is how often a notification is tried while Redis fails, with a
	// pause that grows from enqueuePause.
	enqueueTries = 3
	enqueuePause = 200 * time.Millisecond
	// enqueueTriesLater is how often when the API says after how long to come again.
	enqueueTriesLater = 5
	// batchSize is how many are enqueued together at most, and batches how many such calls
	// are under way at once.
	batchSize = 250
	batches   = 8
	// batchPause is after how long a batch leaves that is not full. A user's burst comes to
	// the queue at once so, and one worker takes it.
	batchPause = 2 * time.Millisecond
)

// enqueue enqueues notifications, those of one user in order. A failure that
// leaves open whether one was taken is tried again under the same ID. What is
// under way when ctx ends still ends, so that it is known what became of it.
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
			if wait, ok := comesAgain(r.Err, try); ok {
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

// refused reports whether the error is of that notification alone: it is not valid, or
// another has its ID.
func refused(err error) bool {
	return errors.As(err, new(push.Faults)) || errors.Is(err, push.ErrConflict)
}

// comesAgain says whether what failed so at that try is worth another one, and
// after how long.
func comesAgain(err error, try int) (time.Duration, bool) {
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

// itemOf returns the notification as one, with an ID of its own if it has none.
func itemOf(n *push.Notification) item {
	named := n.ID != ""
	if !named {
		n.ID = uuid.Must(uuid.NewV7()).String()
	}
	return item{apiclient.ItemOf(n), named, n.App + "/" + n.User}
}

// readItem reads the notification of a line, as far as it is JSON: what else is wrong with
// it the API says. The line is good until the next one is read.
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

// sendLines enqueues the notification of each line. Those of one user stay in
// order. It stops reading when ctx ends or the API fails.
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

// gather adds to the first line those that follow at once.
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

// distribute reads the lines and gives each user's to the same queue. It answers
// the number of the last line it read.
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
