package fcm

import (
	"context"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/providers"
)

// Check gets an access token and reaches for FCM, and sends no message. Whether
// the account may send for the project, FCM says to a message only.
func (s *Sender) Check(ctx context.Context) providers.Reached {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if _, failed := s.tokens.get(ctx); failed != nil {
		return providers.Reached{Failed: providers.StepToken, Err: failed.Err}
	}
	transport := s.transport.Clone() // the token endpoint may have left a connection to the same host
	defer transport.CloseIdleConnections()
	r := providers.Reach(ctx, transport, strings.TrimRight(s.endpoint, "/"))
	r.Passed = slices.Insert(r.Passed, 0, providers.StepToken)
	return r
}
