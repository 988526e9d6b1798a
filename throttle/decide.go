package throttle

// entry is the instant of an entry in µs of the limiter's clock.
type entry = int64

// none stands for an entry that does not exist.
const none entry = -1

// A glance is what a first visit reads of one scope: for each rule the n-th
// newest admission, or none.
type glance struct {
	rules []rule
	nth   []entry
}

// longest is the longest of the rules' periods, with the margin of those who wait.
func (g *glance) longest() int64 {
	longest := int64(0)
	for _, r := range g.rules {
		longest = max(longest, r.period)
	}
	return longest + mostMargin
}

// decide answers the first instant, from that one on, at which every rule of
// every scope allows an admission, and the scope and rule that set it. It is
// that instant itself when the request is allowed.
//
// A rule of n in a period allows an instant that lies at least the period after
// the n-th newest admission; an entry exactly one period old has expired.
func decide(views []glance, from int64) (at int64, scope, rule int) {
	at = from
	for i, v := range views {
		for j, r := range v.rules {
			if r.period == 0 || v.nth[j] == none {
				continue
			}
			if free := v.nth[j] + r.period; free > at {
				at, scope, rule = free, i, j
			}
		}
	}
	return at, scope, rule
}

// A claim's stamp is made before the server's clock is known. It counts when it
// is at most stampEarly before the server's instant, which bounds how much
// closer than allowed two admissions can really be, or at most stampLate after
// it, which only makes the next one wait.
const (
	stampEarly = 1_000  // µs
	stampLate  = 10_000 // µs
)

func stampHolds(stamp, now int64) bool {
	return stamp >= now-stampEarly && stamp <= now+stampLate
}
