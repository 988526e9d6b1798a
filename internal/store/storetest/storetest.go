// Package storetest helps tests that use the store.
package storetest

import (
	"errors"
	"testing"

	"github.com/pushpace/pushpace/internal/store"
)

// At returns the shard that knows the ID, or else the first one.
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
