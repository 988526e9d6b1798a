package feeding

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/subprocess"
	"github.com/pushpace/pushpace/test/rig"
)

// postgres runs a server in a folder of its own until the test ends, and returns its address.
func postgres(t *testing.T) string {
	t.Helper()
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian's
	if len(folders) == 0 {
		const missing = "this test needs Postgres in /usr/lib/postgresql"
		if os.Getenv("PUSHPACE_REQUIRE_POSTGRES") == "1" {
			t.Fatal("PUSHPACE_REQUIRE_POSTGRES is 1, and ", missing)
		}
		t.Skip(missing)
	}
	dir, err := os.MkdirTemp("", "pushpace-postgres-") // other users may not enter t.TempDir
	rig.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(folders[len(folders)-1], name), args...)
		if os.Getuid() == 0 { // Postgres does not run as root
			cmd = exec.Command("setpriv", append([]string{"--reuid=postgres", "--regid=postgres", "--clear-groups"}, cmd.Args...)...)
		}
		cmd.Dir = dir
		return cmd
	}
	if os.Getuid() == 0 {
		rig.Must(t, exec.Command("chown", "postgres:", dir).Run())
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "-D", data, "-U", "shop", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	rig.Must(t, err)
	t.Cleanup(func() { _ = log.Close() })
	server := command("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	server.Stdout, server.Stderr = log, log
	process, err := subprocess.Start(server)
	rig.Must(t, err)
	t.Cleanup(func() {
		_ = process.Signal(syscall.SIGQUIT) // it removes its shared memory
		eventually.Holds(t, "Postgres ends", process.Exited)
		process.Kill()
	})
	address := "host=" + dir + " user=shop dbname=postgres"
	eventually.Holds(t, "Postgres answers", func() bool {
		db, err := pgx.Connect(t.Context(), address)
		if err == nil {
			err = db.Close(t.Context())
		}
		return err == nil
	})
	return address
}
