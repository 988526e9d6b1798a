package fielderrors

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	var f Faults
	if f.Err() != nil || len(Of(nil)) != 0 {
		t.Error("no faults are an error")
	}
	f.Add("min_gap", "%s is negative", "-1s")
	f.Add("", "nothing fits")
	if got, want := f.Err().Error(), "min_gap: -1s is negative; nothing fits"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Of(fmt.Errorf("line 3: %w", f)); !slices.Equal(got, f) {
		t.Errorf("of a wrapped one: %v", got)
	}
	if got := Of(errors.New("it is away")); !slices.Equal(got, Faults{{"", "it is away"}}) {
		t.Errorf("of another error: %v", got)
	}
	for range 2 * maxFaults {
		f.Add("rates", "are too many")
	}
	if got, want := f.Error(), "min_gap: -1s is negative; nothing fits; rates: are too many; rates: are too many; rates: are too many; rates: are too many; rates: are too many; rates: are too many; and 92 more"; got != want || len(f) != maxFaults {
		t.Errorf("%d: %q", len(f), got)
	}
}
