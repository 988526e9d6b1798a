package fcm

import (
	"context"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/providers"
)

// Check fetches an access token and connects to FCM, and sends no message. Only a message shows
// whether the account may send for the project.
func (s *Sender) Check(ctx context.Context) providers.Reached {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if _, failed := s.tokens.get(ctx); failed != nil {
		return providers.Reached{Failed: providers.StepToken, Err: failed.Err}
	}
	transport := s.transport.Clone() // the endpoint of access tokens may have left a connection to the same host
	defer transport.CloseIdleConnections()
	r := providers.Reach(ctx, transport, strings.TrimRight(s.endpoint, "/"))
	r.Passed = slices.Insert(r.Passed, 0, providers.StepToken)
	return r
}
