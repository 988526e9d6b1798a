package apns

import (
	"context"
	"slices"

	"github.com/pushpace/pushpace/providers"
)

// Check reaches for APNs with the credential, and sends no notification. APNs
// judges a key only when it is sent one.
func (s *Sender) Check(ctx context.Context) providers.Reached {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if o := s.rehearse(ctx, s.credential.Load()); o.Kind != providers.Delivered {
		return providers.Reached{Failed: providers.StepToken, Err: o.Err}
	}
	transport := s.connections.transport.Clone() // a request of its own keeps out of the pushes' way
	defer transport.CloseIdleConnections()
	r := providers.Reach(ctx, transport, s.config.host())
	r.Passed = slices.Insert(r.Passed, 0, providers.StepToken)
	return r
}
