package compare

import "github.com/pushpace/pushpace/throttle"

// rolling is the rolling window of a user's limits: by each rate an admission lies a
// period after the count-th before it.
type rolling struct {
	rates []throttle.Rate
	most  int       // the largest count: so many of the newest decide
	keys  [][]int64 // of each key the newest admissions, the oldest first
}

func newRolling(rates []throttle.Rate, keys int) *rolling {
	r := &rolling{rates: rates, keys: make([][]int64, keys)}
	for _, rate := range rates {
		r.most = max(r.most, rate.Count)
	}
	return r
}

func (r *rolling) take(key int32, now int64) (left int64, taken bool) {
	sent := r.keys[key]
	for _, rate := range r.rates {
		if n := len(sent); n >= rate.Count {
			left = max(left, sent[n-rate.Count]+rate.Period.Microseconds()-now)
		}
	}
	if left > 0 {
		return left, false
	}
	if len(sent) == r.most {
		sent = sent[1:] // append moves what is left when there is no more room
	}
	r.keys[key] = append(sent, now)
	return 0, true
}
