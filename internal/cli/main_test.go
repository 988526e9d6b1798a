//go:build unix

package cli

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pushpace/pushpace/internal/redistest"
)

// TestMain puts the program on the PATH of scripts: this test binary under a second name, so that
// the program need not be linked as well.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"pushpace": func() { os.Exit(Run(os.Args[1:])) }, "pushpace-shell": runShell})
}

// Tests wait for processes more than they compute.
type tests struct{ *testing.M }

func (m tests) Run() int {
	redistest.Parallel()
	return m.M.Run()
}
