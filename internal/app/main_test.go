package app

import (
	"testing"

	"github.com/pushpace/pushpace/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel()
	m.Run()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
