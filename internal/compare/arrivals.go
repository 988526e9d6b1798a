package compare

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// MaxArrivals is how many arrivals are replayed at most.
const MaxArrivals = 5_000_000

var errTooMany = fmt.Errorf("there are more than %d arrivals", MaxArrivals)

// Arrivals are who asks when, the first one first.
type Arrivals struct {
	at   []int64 // µs since 1970
	key  []int32 // whose limit each is for, from 0 on
	keys int
}

// Len returns how many there are.
func (a *Arrivals) Len() int { return len(a.at) }

// Keys returns how many have a limit of their own.
func (a *Arrivals) Keys() int { return a.keys }

// Span returns how long it is from the first to the last.
func (a *Arrivals) Span() time.Duration {
	return time.Duration(a.at[len(a.at)-1]-a.at[0]) * time.Microsecond
}

// sort puts them in order. Those of one instant stay as they came.
func (a *Arrivals) sort() {
	if slices.IsSorted(a.at) {
		return
	}
	order := make([]int, len(a.at))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(a.at[i], a.at[j]) })
	at, key := make([]int64, len(order)), make([]int32, len(order))
	for to, from := range order {
		at[to], key[to] = a.at[from], a.key[from]
	}
	a.at, a.key = at, key
}

// Synthetic arrivals all have one limit. They begin half a minute after a full
// hour, so that there is a border of the clock's minutes within their first one.
const (
	begin         = 30 * int64(time.Second/time.Microsecond)
	poissonFor    = 5 * time.Minute
	hourlyBase    = 5  // a second
	hourlyPeak    = 20 // a second
	hourlyPeakFor = 2 * time.Minute
)

// Synthesize makes the arrivals that the text names: poisson:RATE, such as
// poisson:20/s, for five minutes; burst:COUNT, all at once; hourly, two hours of 5
// a second, and 20 in the first two minutes of an hour. The same text makes the
// same arrivals.
func Synthesize(text string) (*Arrivals, error) {
	kind, argument, given := strings.Cut(text, ":")
	switch {
	case kind == "poisson" && given:
		rate, err := parseRate(argument)
		if err != nil {
			return nil, err
		}
		mean := rate.Period.Seconds() / float64(rate.Count)
		if poissonFor.Seconds()/mean > MaxArrivals {
			return nil, errTooMany
		}
		a := &Arrivals{keys: 1}
		a.poisson(begin, begin+poissonFor.Microseconds(), mean)
		if a.Len() == 0 {
			return nil, fmt.Errorf("%s: nothing arrives within %s", text, throttle.FormatPeriod(poissonFor))
		}
		return a, nil
	case kind == "burst" && given:
		count, err := strconv.Atoi(argument)
		if err != nil || count < 1 {
			return nil, errors.New("burst: want a count of 1 or more, such as burst:1000")
		}
		if count > MaxArrivals {
			return nil, errTooMany
		}
		return &Arrivals{at: slices.Repeat([]int64{begin}, count), key: make([]int32, count), keys: 1}, nil
	case text == "hourly":
		a := &Arrivals{keys: 1}
		half := (30 * time.Minute).Microseconds()
		peak := hourlyPeakFor.Microseconds()
		from := begin + half
		for hour := 2 * half; hour <= 4*half; hour += 2 * half {
			a.poisson(from, hour, 1./hourlyBase)
			a.poisson(hour, hour+peak, 1./hourlyPeak)
			from = hour + peak
		}
		a.poisson(from, begin+5*half, 1./hourlyBase)
		return a, nil
	}
	return nil, errors.New("want poisson:RATE such as poisson:20/s, burst:COUNT such as burst:1000, or hourly")
}

// parseRate reads a rate whose period may be a unit alone, as in 20/s.
func parseRate(text string) (throttle.Rate, error) {
	count, period, found := strings.Cut(text, "/")
	if found && period != "" && period[0] >= 'a' && period[0] <= 'z' {
		period = "1" + period
		text = count + "/" + period
	}
	return throttle.ParseRate(text)
}

// poisson appends arrivals that know nothing of each other, so many seconds apart
// in the mean.
func (a *Arrivals) poisson(from, to int64, mean float64) {
	random := rand.New(rand.NewPCG(uint64(from), uint64(to)))
	for at := float64(from); ; {
		at += float64(random.ExpFloat64() * mean * 1e6) // rounded alike on all machines
		if at >= float64(to) {
			return
		}
		a.at, a.key = append(a.at, int64(at)), append(a.key, 0)
	}
}
