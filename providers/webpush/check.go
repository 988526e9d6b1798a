package webpush

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// Check reaches for each host that Config.Hosts names without a star, or for the endpoint,
// and sends no message. It says how far it gets with all of them: what it passed each of
// them passed, and where it failed one did, which the error names.
func (s *Sender) Check(ctx context.Context) providers.Reached {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	all := providers.Reached{}
	for i, host := range s.reachable() {
		transport := s.transport.Clone() // the steps are those of a new connection
		r := reach(ctx, transport, host)
		if i == 0 {
			all.Passed = r.Passed
		}
		all.Passed = slices.DeleteFunc(all.Passed, func(step string) bool { return !slices.Contains(r.Passed, step) })
		if !r.OK() {
			all.Failed, all.Err = r.Failed, fmt.Errorf("%s: %w", host, r.Err)
			break
		}
	}
	return all
}

func reach(ctx context.Context, transport *http.Transport, host string) providers.Reached {
	defer transport.CloseIdleConnections()
	return providers.Reach(ctx, transport, "https://"+host)
}

// reachable are the hosts to reach for.
func (s *Sender) reachable() []string {
	if s.endpoint != nil {
		return []string{s.endpoint.Host}
	}
	return slices.DeleteFunc(slices.Clone(s.hosts), func(host string) bool { return strings.HasPrefix(host, push.AnyHost) })
}
