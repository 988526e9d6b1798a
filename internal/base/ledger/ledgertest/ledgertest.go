// Package ledgertest is for tests of what uses the ledger.
package ledgertest

import (
	"errors"
	"testing"

	"github.com/pushpace/pushpace/internal/base/ledger"
)

// At returns the shard that knows the ID, or else the first one.
func At(t testing.TB, records *ledger.Records, id string) *ledger.Shard {
	t.Helper()
	at, err := records.Find(t.Context(), ledger.Ref{ID: id})
	if errors.Is(err, ledger.ErrUnknownID) {
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
func First(t testing.TB, records *ledger.Records) *ledger.Shard {
	t.Helper()
	return At(t, records, "")
}
