// Package fielderrors reports the faults of a value by field, so that a caller need not parse a
// sentence. Start with Faults.
package fielderrors

import (
	"errors"
	"fmt"
	"strings"
)

// A Fault is one error of a field.
type Fault struct {
	// Field is a JSON pointer (RFC 6901) into a notification or a request, such as
	// "/targets/3/token", or a configuration key, such as "min_gap"; "" for the whole value.
	Field string `json:"field"`
	// Problem is the error and the expectation, without the field's name. Of a notification's
	// values it contains at most the name of a wrong placeholder.
	Problem string `json:"problem"`
}

// Faults are all faults of a value. As an error they are never empty.
type Faults []Fault

const (
	// maxFaults bounds the reported faults of one value.
	maxFaults = 100
	// maxShown is the number of faults in the error's text.
	maxShown = 8
)

// Error describes the first maxShown faults and counts the rest.
func (f Faults) Error() string {
	var b strings.Builder
	for i, fault := range f {
		if i == maxShown {
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

// Err returns the faults as an error; nil if there are none.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Add adds a fault, up to 100.
func (f *Faults) Add(field, format string, args ...any) {
	if len(*f) < maxFaults {
		*f = append(*f, Fault{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
}

// Of returns the faults in an error; none for nil. Any other error becomes one fault of the whole
// value.
func Of(err error) Faults {
	var all Faults
	if err != nil && !errors.As(err, &all) {
		all.Add("", "%v", err)
	}
	return all
}

// List joins names, with the word before the last name: "a, b or c".
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
