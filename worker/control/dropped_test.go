package control

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
)

// Once a minute, one worker logs for each app how many dead letters were deleted since the app's last
// message.
func TestDroppedLettersAreLoggedOncePerAppAndMinute(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	records := store.NewRecords(client, "", 0)
	counts := storetest.First(t, records).Key("counts")
	drop := func(app string, n int64) {
		t.Helper()
		must(t, client.HIncrBy(t.Context(), counts, "dropped:"+store.DeadLetters+":"+app, n).Err())
	}
	lines := func() (all []string) {
		t.Helper()
		var text bytes.Buffer
		for range 2 { // workers
			(&Control{client: client, records: records}).logDropped(t.Context(), slog.New(slog.NewTextHandler(&text, nil)))
		}
		for line := range strings.Lines(text.String()) {
			_, attrs, _ := strings.Cut(strings.TrimSpace(line), "app=")
			all = append(all, attrs)
		}
		return all
	}
	expect := func(want ...string) {
		t.Helper()
		if got := lines(); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("logged %q, want %q", got, want)
		}
	}
	expect()
	drop("mail", 2)
	drop("a:b", 7)
	expect("a:b deleted=7 in_all=7", "mail deleted=2 in_all=2")
	drop("mail", 3)
	expect() // nothing within the minute
	must(t, client.Del(t.Context(), "pushpace:{dropped}:turn").Err())
	expect("mail deleted=3 in_all=5")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
