package push

import (
	"strings"

	"github.com/pushpace/pushpace/internal/faults"
)

// A Fault is one thing that is wrong with a notification. Its field is a JSON pointer.
type Fault = faults.Fault

// Faults are all that is wrong with a notification. As an error it is never empty.
type Faults = faults.Faults

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
