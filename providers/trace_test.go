package providers

import (
	"net/http"
	"testing"
)

// A request that belongs to no trace costs nothing more.
func TestAnUntracedRequest(t *testing.T) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response := new(http.Response)
	next := func(r *http.Request) (*http.Response, error) {
		if r != request {
			t.Error("another request")
		}
		return response, nil
	}
	n := testing.AllocsPerRun(100, func() {
		if got, err := TraceRequest(request, next); got != response || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
