package providers_test

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
)

// A request leaves until one of its bounds says no; one that says while has the last word.
func TestDepart(t *testing.T) {
	t.Parallel()
	may := true
	ctx := providers.LeaveWhile(providers.DepartBy(t.Context(), time.Now().Add(time.Hour)), func() bool { return may })
	if !providers.Depart(ctx) || providers.Missed(ctx) {
		t.Error("it may not leave in time")
	}
	if may = false; providers.Depart(ctx) {
		t.Error("the second leaves though it may not any more")
	}
	if may = true; !providers.Depart(ctx) {
		t.Error("it may not leave once it may again")
	}
	if past := time.Now().Add(-time.Hour); providers.Depart(providers.LeaveBy(ctx, past)) {
		t.Error("it leaves too late")
	}
}
