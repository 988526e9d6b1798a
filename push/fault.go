package push

import "github.com/pushpace/pushpace/internal/base/faults"

// A Fault is one fault of a notification: its Field, a string, is a JSON pointer, and its
// Problem, a string, describes it without the value.
type Fault = faults.Fault

// Faults are all faults of a notification, a []Fault. As an error it is never empty.
type Faults = faults.Faults
