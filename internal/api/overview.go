package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/overview"
	"github.com/pushpace/pushpace/worker"
)

// overviewFresh is how long an overview is told again, so that many who watch
// cost Redis as much as one.
const overviewFresh = time.Second

// A lookout keeps the last overview for a moment. Its zero value has none.
type lookout struct {
	mu   sync.Mutex
	last *overview.Overview
}

func (l *lookout) read(ctx context.Context, r *overview.Reader) (*overview.Overview, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil && time.Since(l.last.At) < overviewFresh {
		return l.last, nil
	}
	o, err := r.Read(ctx)
	if err == nil {
		l.last = o
	}
	return o, err
}

// overview tells how everything is.
func (a *API) overview(ctx context.Context, _ *call) (reply, error) {
	o, err := a.lookout.read(ctx, a.o.Overview)
	return reply{http.StatusOK, o}, err
}

// workers lists those that are alive.
func (a *API) workers(ctx context.Context, _ *call) (reply, error) {
	list, err := a.o.Overview.Workers(ctx)
	return reply{http.StatusOK, struct {
		Workers []worker.Snapshot `json:"workers"`
	}{list}}, err
}
