//go:build unix

package loadtest

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestFullDiskIsExplained(t *testing.T) {
	t.Parallel()
	full := &os.PathError{Op: "write", Path: "config.yaml", Err: syscall.ENOSPC}
	if err := explain(fmt.Errorf("configure: %w", full)); !strings.Contains(err.Error(), "make room there, or set TMPDIR to another folder") {
		t.Error(err)
	}
	if err := explain(os.ErrPermission); err != os.ErrPermission {
		t.Error(err)
	}
}
