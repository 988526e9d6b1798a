package push

import "github.com/pushpace/pushpace/internal/base/faults"

// A Fault is one thing that is wrong with a notification: its Field, a string, is a JSON
// pointer, and its Problem, a string, says what, without the value.
type Fault = faults.Fault

// Faults are all that is wrong with a notification, a []Fault. As an error it is never empty.
type Faults = faults.Faults
