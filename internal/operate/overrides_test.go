package operate_test

import (
	"fmt"
	"testing"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle/limits"
)

// The overrides of one user are found among many others, in more than one page, and each page
// costs a bounded number of reads.
func TestOverridesOfAUserAreFoundAmongMany(t *testing.T) {
	t.Parallel()
	client, asked := redistest.Own(t), new(redistest.Trips)
	client.AddHook(asked)
	s, options := newService(t, client)
	all := make([]limits.Override, 2000)
	for i := range all {
		all[i] = limits.Override{Level: limits.Level{User: fmt.Sprint("user-", i)}, Policy: rate, By: "ann"}
	}
	must(t, options.Overrides.Import(t.Context(), all))
	o := s.As(operate.Principal{Role: config.Viewer}, "")
	found, cursor := 0, ""
	for pages := 1; ; pages++ {
		asked.Take()
		page, err := o.Overrides(t.Context(), limits.Level{User: "user-7"}, cursor, 10)
		must(t, err)
		if n := len(asked.Take()); n > 20 {
			t.Fatalf("page %d costs %d round trips", pages, n)
		}
		found += len(page.Overrides)
		if cursor = page.Next; cursor != "" {
			continue
		}
		if found == 0 || pages == 1 {
			t.Errorf("%d are found on %d pages", found, pages)
		}
		return
	}
}
