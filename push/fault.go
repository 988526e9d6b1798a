package push

import "github.com/pushpace/pushpace/internal/base/fielderrors"

// A Fault is one fault of a notification: its Field, a string, is a JSON pointer, and its
// Problem, a string, describes it without the value.
type Fault = fielderrors.Fault

// Faults are all faults of a notification, a []Fault. As an error it is never empty.
type Faults = fielderrors.Faults
