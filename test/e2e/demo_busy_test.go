//go:build e2e && soak && unix

package e2e

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/test/rig"
)

// On a busy machine the demo reports no broken limit, and reports that the machine is busy.
func TestDemoOnBusyMachine(t *testing.T) {
	for range 10 * runtime.NumCPU() {
		loop := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		rig.Must(t, loop.Start())
		t.Cleanup(func() { _ = loop.Process.Kill(); _ = loop.Wait() })
	}
	p := rig.Start(t, rig.Setup{}, "demo")
	select {
	case <-p.Done:
	case <-time.After(10 * time.Minute):
	}
	if status := p.Wait(t); status != rig.Done {
		t.Errorf("exit status %d: %s%s", status, &p.Stdout, &p.Stderr)
	}
	if got := p.Stdout.String(); !strings.Contains(got, "this machine is busy") || !strings.Contains(got, " 0 limits broken, 0 lost") {
		t.Errorf("standard output: %s", got)
	}
}
