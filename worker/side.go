package worker

import (
	"context"
	"sync"
)

// side is what runs beside the pipeline, until stopping ends.
type side struct {
	all      sync.WaitGroup
	stopping context.Context
	stop     context.CancelFunc
}

func newSide() *side {
	s := new(side)
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s
}

// run runs f in a goroutine. f returns when its context ends.
func (s *side) run(f func(ctx context.Context)) {
	s.all.Go(func() { f(s.stopping) })
}
