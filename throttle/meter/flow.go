package meter

import "time"

// A flow measures the units used in the last two seconds. The zero value has no use.
type flow struct {
	begun       time.Time // start of the current second
	now, before int       // in the current and in the previous second
}

func (f *flow) add(now time.Time, units int) {
	switch passed := now.Sub(f.begun); {
	case passed >= 2*time.Second:
		*f = flow{begun: now}
	case passed >= time.Second:
		*f = flow{begun: f.begun.Add(time.Second), before: f.now}
	}
	f.now += units
}

// over estimates the use within a time of that length.
func (f *flow) over(now time.Time, length time.Duration) int {
	passed := now.Sub(f.begun)
	second := float64(f.now)
	switch {
	case passed >= 2*time.Second:
		return 0
	case passed >= time.Second:
		second *= (2*time.Second - passed).Seconds()
	default:
		second += float64(f.before) * (time.Second - passed).Seconds()
	}
	return max(0, int(second*length.Seconds()))
}
