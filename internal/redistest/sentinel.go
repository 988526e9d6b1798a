//go:build unix

package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// MasterName is what StartSentinel calls its master.
const MasterName = "main"

// StartSentinel runs a Sentinel that watches master, under MasterName, until
// the test ends.
func StartSentinel(t testing.TB, master *Server, opts ...Option) *Server {
	t.Helper()
	require(t)
	dir := t.TempDir()
	conf := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1\n", MasterName, master.port)
	if master.password != "" {
		conf += fmt.Sprintf("sentinel auth-pass %s %s\n", MasterName, master.password)
	}
	file := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, &Server{dir: dir, config: file}, append([]Option{Args("--sentinel")}, opts...)...)
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	c := s.Client(t)
	err := poll(ctx, func() error {
		return c.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).Err()
	})
	if err != nil {
		t.Fatalf("redistest: Sentinel on %s: %v", s.Addr(), err)
	}
	return s
}
