// Package storetest helps tests that use the store.
package storetest

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/store"
)

// At returns the shard that knows the ID, or the first shard if none does.
func At(t testing.TB, records *store.Records, id string) *store.Shard {
	t.Helper()
	at, err := records.Find(t.Context(), store.Ref{ID: id})
	if errors.Is(err, store.ErrUnknownID) {
		all, failed := records.All(t.Context())
		if err = failed; err == nil {
			at = all[0]
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// First returns the first shard of the records.
func First(t testing.TB, records *store.Records) *store.Shard {
	t.Helper()
	return At(t, records, "")
}

// ClaimJob moves a pending job into the claim "test/1".
func ClaimJob(t testing.TB, client redis.UniversalClient, at *store.Shard, queue, id string) *store.Job {
	t.Helper()
	job := &store.Job{ID: id, Queue: queue, Claim: "test/1"}
	pipe := client.TxPipeline()
	pipe.LRem(t.Context(), at.QueueKey(queue, "pending"), 1, id)
	pipe.LPush(t.Context(), at.QueueKey(queue, "active"), id)
	pipe.HSet(t.Context(), at.QueueKey(queue, "t:"+id), "state", "active", "worker", job.Claim)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	return job
}
