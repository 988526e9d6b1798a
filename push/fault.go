package push

import (
	"fmt"
	"strings"
)

// A Fault is one thing that is wrong with a notification.
type Fault struct {
	// Field is a JSON pointer (RFC 6901) to what is wrong, such as
	// "/targets/3/token"; empty for the notification as a whole.
	Field string `json:"field"`
	// Problem says what is wrong with it and what is expected. It holds no value
	// of the notification.
	Problem string `json:"problem"`
}

// Faults are all that is wrong with a notification. As an error it is never empty.
type Faults []Fault

// maxFaults bounds what is reported about one notification.
const maxFaults = 100

// shownFaults is how many faults the error's text names.
const shownFaults = 8

// Error names the first faults and counts the others.
func (f Faults) Error() string {
	var b strings.Builder
	for i, fault := range f {
		if i == shownFaults {
			fmt.Fprintf(&b, "; and %d more", len(f)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		if fault.Field != "" {
			b.WriteString(fault.Field)
			b.WriteByte(' ')
		}
		b.WriteString(fault.Problem)
	}
	return b.String()
}

// err returns the faults as an error, nil when there are none.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// add notes a fault, up to maxFaults.
func (f *Faults) add(field, format string, args ...any) {
	if len(*f) < maxFaults {
		*f = append(*f, Fault{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// pointer returns the JSON pointer of a path.
func pointer(path ...string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		pointerEscaper.WriteString(&b, name)
	}
	return b.String()
}
