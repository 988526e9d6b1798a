//go:build unix

package cli

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pushpace/pushpace/internal/redistest"
)

// TestMain has scripts find the program on the PATH: this test binary by another name, which
// saves a second link.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"pushpace": func() { os.Exit(Run(os.Args[1:])) }, "pushpace-shell": runShell})
}

// Tests wait for processes more than they compute.
type tests struct{ *testing.M }

func (m tests) Run() int {
	redistest.Parallel()
	return m.M.Run()
}
