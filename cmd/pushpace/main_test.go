//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pushpace/pushpace/internal/redistest"
)

// binary is the program: this test binary by another name, which saves a second link.
var binary string

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"pushpace": main, "pushpace-shell": runShell})
}

// Tests are run where the program is on the PATH.
type tests struct{ *testing.M }

func (m tests) Run() int {
	redistest.Parallel()
	var err error
	if binary, err = exec.LookPath("pushpace"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.M.Run()
}
