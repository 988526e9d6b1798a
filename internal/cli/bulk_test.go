package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/push"
)

// Lines that follow within the pause are enqueued together, and no line waits longer for the
// next one.
func TestLinesAreGathered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := make(chan line)
		go func() {
			for i := range 4 {
				queue <- line{number: i + 1}
				if i == 2 {
					time.Sleep(2 * batchPause)
				}
			}
			close(queue)
		}()
		for _, want := range []int{3, 1} {
			if got := len(gather(<-queue, queue)); got != want {
				t.Errorf("%d lines are enqueued together, want %d", got, want)
			}
		}
	})
}

// sendLines repeats a request after a 503 or a lost answer. The API accepts each line once,
// and each user's lines in order.
func TestRetriedLinesAreAcceptedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lines, users = 4000, 20
		var mu sync.Mutex
		taken, requests := map[string][]string{}, 0 // IDs by user
		api := apiclient.NewLocal(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if requests++; requests == 2 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			var all []push.Notification
			if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
				t.Error(err)
			}
			var results []string
			for _, n := range all {
				status := http.StatusOK
				if !slices.Contains(taken[n.User], n.ID) {
					taken[n.User], status = append(taken[n.User], n.ID), http.StatusAccepted
				}
				results = append(results, fmt.Sprintf(`{"id":%q,"status":%d}`, n.ID, status))
			}
			if requests != 4 { // the fourth answer is lost
				_, _ = io.WriteString(w, `{"results":[`+strings.Join(results, ",")+`]}`)
			}
		}), func() error { return nil })
		var in, out strings.Builder
		for i := range lines {
			fmt.Fprintf(&in, `{"id":"n-%04d","app":"demo","user":"%d","targets":[{"platform":"apns","token":"00"}],"title":"t"}`+"\n", i, i%users)
		}
		r := newReceipts(&out, true, -1)
		if err := errors.Join(sendLines(t.Context(), api, strings.NewReader(in.String()), r), r.finish()); err != nil || r.failed > 0 {
			t.Errorf("%v, %d failed", err, r.failed)
		}
		if n := strings.Count(out.String(), "\n"); n != lines || requests < 6 {
			t.Errorf("%d lines in %d requests", n, requests)
		}
		for user, ids := range taken {
			if len(ids) != lines/users || !slices.IsSorted(ids) {
				t.Errorf("%d of %s's: %v", len(ids), user, ids)
			}
		}
	})
}
