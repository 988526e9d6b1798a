package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/pushpace/pushpace/internal/overview"
	"github.com/pushpace/pushpace/worker/control"
)

// overviewFresh is how long an overview is told again, so that many who watch
// cost Redis as much as one.
const overviewFresh = time.Second

// A lookout keeps the last overview for a moment, and has all who ask meanwhile
// share the read under way. Its zero value has none.
type lookout struct {
	reads singleflight.Group

	mu   sync.Mutex
	last *overview.Overview
	at   time.Time // when it was read, all of it
}

// read answers an overview that is fresh. A read may take as long as a request, and
// goes on when who asked first is gone.
func (l *lookout) read(ctx context.Context, timeout time.Duration, read func(context.Context) (*overview.Overview, error)) (*overview.Overview, error) {
	if o := l.fresh(); o != nil {
		return o, nil
	}
	shared := l.reads.DoChan("", func() (any, error) {
		if o := l.fresh(); o != nil {
			return o, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		o, err := read(ctx)
		if err == nil {
			l.keep(o)
		}
		return o, err
	})
	select {
	case done := <-shared:
		o, _ := done.Val.(*overview.Overview)
		return o, done.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *lookout) fresh() *overview.Overview {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) >= overviewFresh {
		return nil
	}
	return l.last
}

func (l *lookout) keep(o *overview.Overview) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.at = o, time.Now()
}

// overview tells how everything is.
func (a *API) overview(ctx context.Context, c *call) (reply, error) {
	o, err := a.lookout.read(ctx, a.o.HTTP.Timeout, a.o.Overview.Read)
	if err != nil {
		return reply{}, err
	}
	return reply{http.StatusOK, o.Of(c.who)}, nil
}

// workers lists those that are alive.
func (a *API) workers(ctx context.Context, c *call) (reply, error) {
	list, err := a.o.Overview.Workers(ctx)
	return reply{http.StatusOK, struct {
		Workers []control.Snapshot `json:"workers"`
	}{overview.WorkersOf(list, c.who)}}, err
}
