package webpush

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// Check connects to each host that Config.Hosts names without a star, or to the endpoint, all in
// parallel, and sends no message. Passed are the steps that all hosts passed, Failed is the step
// of the first host that failed, and Err names each failed host.
func (s *Sender) Check(ctx context.Context) (all providers.Reached) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	hosts := s.reachable()
	reached := make([]providers.Reached, len(hosts))
	var reaching sync.WaitGroup
	for i, host := range hosts {
		reaching.Go(func() { reached[i] = reach(ctx, s.transport.Clone(), host) }) // only a new connection passes all steps
	}
	reaching.Wait()
	for i, r := range reached {
		if i == 0 {
			all.Passed = r.Passed
		}
		all.Passed = slices.DeleteFunc(all.Passed, func(step string) bool { return !slices.Contains(r.Passed, step) })
		switch {
		case r.OK():
		case all.OK():
			all.Failed, all.Err = r.Failed, fmt.Errorf("%s: %w", hosts[i], r.Err)
		default:
			all.Err = fmt.Errorf("%w; %s: %w", all.Err, hosts[i], r.Err)
		}
	}
	return all
}

func reach(ctx context.Context, transport *http.Transport, host string) providers.Reached {
	defer transport.CloseIdleConnections()
	return providers.Reach(ctx, transport, "https://"+host)
}

// reachable returns the hosts that Check connects to.
func (s *Sender) reachable() []string {
	if s.endpoint != nil {
		return []string{s.endpoint.Host}
	}
	return slices.DeleteFunc(slices.Clone(s.hosts), func(host string) bool { return strings.HasPrefix(host, push.AnyHost) })
}
