package apns

import (
	"context"
	"slices"

	"github.com/pushpace/pushpace/providers"
)

// Check checks the credential and the connection to APNs without a notification. APNs itself judges
// a key only by a notification.
func (s *Sender) Check(ctx context.Context) providers.Reached {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if o := s.rehearse(ctx, s.credential.Load()); o.Kind != providers.Delivered {
		return providers.Reached{Failed: providers.StepToken, Err: o.Err}
	}
	transport := s.connections.transport.Clone() // a separate connection does not disturb pushes
	defer transport.CloseIdleConnections()
	r := providers.Reach(ctx, transport, s.config.host())
	r.Passed = slices.Insert(r.Passed, 0, providers.StepToken)
	return r
}
