// Package faults is how a validator reports what is wrong, so that nobody has to look for
// the field in a sentence.
package faults

import (
	"errors"
	"fmt"
	"strings"
)

// A Fault is one thing that is wrong.
type Fault struct {
	// Field is what is wrong: a JSON pointer (RFC 6901) into a notification or a request,
	// such as "/targets/3/token", or a key of the configuration's, such as "min_gap". It
	// is empty for the whole.
	Field string `json:"field"`
	// Problem says what is wrong with it and what is expected, without naming the field.
	// It holds no value of a notification.
	Problem string `json:"problem"`
}

// Faults are all that is wrong with a value. As an error they are never empty.
type Faults []Fault

const (
	// most bounds what is reported about one value.
	most = 100
	// shown is how many faults the error's text names.
	shown = 8
)

// Error names the first faults and counts the others.
func (f Faults) Error() string {
	var b strings.Builder
	for i, fault := range f {
		if i == shown {
			fmt.Fprintf(&b, "; and %d more", len(f)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		if fault.Field != "" {
			b.WriteString(fault.Field)
			b.WriteString(": ")
		}
		b.WriteString(fault.Problem)
	}
	return b.String()
}

// New returns one fault.
func New(field, format string, args ...any) Faults {
	return Faults{{Field: field, Problem: fmt.Sprintf(format, args...)}}
}

// Err returns the faults as an error, nil when there are none.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Add notes a fault, up to 100.
func (f *Faults) Add(field, format string, args ...any) {
	if len(*f) < most {
		*f = append(*f, Fault{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
}

// Of returns the faults that an error holds, none for nil. Another error is a fault of the
// whole.
func Of(err error) Faults {
	var all Faults
	if err != nil && !errors.As(err, &all) {
		all.Add("", "%v", err)
	}
	return all
}

// List writes names for a sentence, with the word before the last: "a, b or c".
func List[S ~string](names []S, word string) string {
	var b strings.Builder
	for i, name := range names {
		switch i {
		case 0:
		case len(names) - 1:
			b.WriteString(" " + word + " ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}
