// Command outbox submits the rows of the table outbox to pushpace, in their order. It may be killed
// at any time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pushpace/pushpace/push"
	"github.com/redis/go-redis/v9"
)

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS"), ContextTimeoutEnabled: true})
	producer := push.NewProducer(client, "", 0).WithApps("demo")
	for ; ; time.Sleep(time.Second) {
		if err := read(producer); err != nil {
			log.Print("trying again: ", err)
		}
	}
}

// read submits rows until an error. As the only reader it keeps the order.
func read(producer *push.Producer) error {
	ctx := context.Background()
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	var alone bool
	err = db.QueryRow(ctx, "SELECT pg_try_advisory_lock(4711)").Scan(&alone)
	for alone && err == nil {
		err = submit(ctx, db, producer)
	}
	return err
}

type row struct {
	ID           int64
	Notification json.RawMessage
}

func submit(ctx context.Context, db *pgx.Conn, producer *push.Producer) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	result, _ := db.Query(ctx, "SELECT id, notification FROM outbox WHERE error IS NULL ORDER BY id LIMIT 500")
	rows, err := pgx.CollectRows(result, pgx.RowToStructByPos[row])
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		time.Sleep(200 * time.Millisecond)
		return nil
	}
	var ids, done []int64
	var batch []*push.Notification
	refused := map[int64]error{}
	for _, r := range rows {
		n, err := push.Parse(r.Notification)
		if err != nil {
			refused[r.ID] = err
			continue
		}
		if n.ID == "" {
			n.ID = fmt.Sprint("outbox-", r.ID)
		}
		ids, batch = append(ids, r.ID), append(batch, n)
	}
	var again error
	for i, r := range producer.EnqueueAll(ctx, batch) {
		switch {
		case r.Err == nil: // accepted or known
			done = append(done, ids[i])
		case errors.Is(r.Err, push.ErrConflict), errors.As(r.Err, new(push.Faults)):
			refused[ids[i]] = r.Err
		default:
			again = r.Err
		}
	}
	if _, err := db.Exec(ctx, "DELETE FROM outbox WHERE id = ANY($1)", done); err != nil {
		return err
	}
	for id, reason := range refused {
		if _, err := db.Exec(ctx, "UPDATE outbox SET error = $2 WHERE id = $1", id, reason.Error()); err != nil {
			return err
		}
	}
	return again
}
