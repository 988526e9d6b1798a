package operate

import (
	"context"
	"time"

	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/worker/control"
)

// ConfirmLoss ends the incident of the loss of data that was shown with this At, and returns the
// loss. It is of all apps together. Its error may be control.ErrNoLoss or control.ErrMoreLost.
func (o *Operator) ConfirmLoss(ctx context.Context, at time.Time) (*control.Loss, error) {
	if err := o.may(ConfirmLoss); err != nil {
		return nil, err
	}
	if err := o.all(); err != nil {
		return nil, err
	}
	defer o.s.overview.forget()
	l, err := o.s.with.Control.ConfirmLoss(ctx, at)
	if err != nil {
		return nil, err
	}
	o.did(ctx, ConfirmLoss, auditlog.Entry{Count: 1})
	return l, nil
}
