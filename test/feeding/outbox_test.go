package feeding

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
)

// The page's program submits each row once and in its user's order, through a SIGKILL between
// the acceptance and the deletion, and while Redis is down. Refused rows stay with their error.
func TestOutboxFeedsEachRowOnce(t *testing.T) {
	t.Parallel()
	address := postgres(t)
	s, server := site(t)
	db := connect(t, address)
	table, err := os.ReadFile("outbox/table.sql")
	rig.Must(t, err)
	_, err = db.Exec(t.Context(), string(table))
	rig.Must(t, err)
	var want [][2]string
	add := func(text string) (row int64) {
		rig.Must(t, db.QueryRow(t.Context(), "INSERT INTO outbox (notification) VALUES ($1) RETURNING id", text).Scan(&row))
		return row
	}
	valid := func(n int) {
		for range n {
			id, user := fmt.Sprint("n-", len(want)), fmt.Sprint("u", len(want)%7)
			add(notification(id, user))
			want = append(want, [2]string{id, user})
		}
	}
	valid(40)
	want = append(want, [2]string{fmt.Sprint("outbox-", add(notification("", "u5"))), "u5"})
	add(notification("n-7", "u0")) // again
	add(strings.Replace(notification("n-8", "u1"), `"t"`, `"other"`, 1))
	add(`{"id":"no-targets","app":"demo","user":"u1","title":"t"}`)
	add(strings.Replace(notification("no-app", "u1"), "demo", "dmeo", 1))
	add(`[]`)
	valid(600)
	remaining := func(where string) (n int) {
		rig.Must(t, db.QueryRow(t.Context(), "SELECT count(*) FROM outbox WHERE "+where).Scan(&n))
		return n
	}
	all := remaining("true")

	// A lock on the rows stops the program between the acceptance and the deletion.
	holder := connect(t, address)
	held, err := holder.Begin(t.Context())
	rig.Must(t, err)
	_, err = held.Exec(t.Context(), "SELECT FROM outbox FOR UPDATE")
	rig.Must(t, err)
	setup := rig.Setup{Program: build(t, "outbox"), Env: []string{"REDIS=" + server.Addr(), "DATABASE_URL=" + address}}
	program := rig.Start(t, setup)
	producer := push.NewProducer(s.Client, "", 0)
	program.Until(t, "the first acceptance", func() bool {
		_, err := producer.Status(t.Context(), "n-0")
		return err == nil
	})
	const waits = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE%'"
	program.Until(t, "the deletion", func() (is bool) {
		rig.Must(t, db.QueryRow(t.Context(), "SELECT count(*) > 0 "+waits).Scan(&is))
		return is
	})
	rig.Must(t, program.Cmd.Process.Kill())
	<-program.Done
	_, err = db.Exec(t.Context(), "SELECT pg_terminate_backend(pid) "+waits) // which would delete later
	rig.Must(t, err)
	rig.Must(t, held.Rollback(t.Context()))
	if n := remaining("true"); n != all {
		t.Fatalf("%d rows remain after the kill, want all %d", n, all)
	}

	program = rig.Start(t, setup)
	done := func() bool { return remaining("error IS NULL") == 0 }
	program.Until(t, "an empty outbox", done)
	server.Kill(t)
	valid(20)
	program.Says(t, 1, "trying again")
	server.Restart(t)
	program.Until(t, "an empty outbox after Redis was down", done)
	accepted(t, s, want)

	rows, err := db.Query(t.Context(), "SELECT error FROM outbox ORDER BY id")
	rig.Must(t, err)
	errors, err := pgx.CollectRows(rows, pgx.RowTo[string])
	rig.Must(t, err)
	for i, part := range []string{push.ErrConflict.Error(), "/targets", "/app", "object"} {
		if len(errors) != 4 || !strings.Contains(errors[i], part) {
			t.Errorf("the errors are %q, want one with %q", errors, part)
		}
	}
}

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), address)
	rig.Must(t, err)
	t.Cleanup(func() { _ = db.Close(t.Context()) })
	return db
}
