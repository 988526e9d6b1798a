package operate

import (
	"context"
	"errors"

	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/worker/control"
)

// ErrNoLoss means that no loss of data is recorded.
var ErrNoLoss = errors.New("no loss of data is recorded")

// ConfirmLoss ends the incident of a loss of data, and returns the loss. It is of all apps
// together. Its error may be ErrNoLoss.
func (o *Operator) ConfirmLoss(ctx context.Context) (*control.Loss, error) {
	if err := o.may(ConfirmLoss); err != nil {
		return nil, err
	}
	if err := o.all(); err != nil {
		return nil, err
	}
	defer o.s.overview.forget()
	l, err := o.s.with.Control.ConfirmLoss(ctx)
	switch {
	case err != nil:
		return nil, err
	case l == nil:
		return nil, ErrNoLoss
	}
	o.did(ctx, ConfirmLoss, auditlog.Entry{Count: 1})
	return l, nil
}
