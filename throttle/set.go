package throttle

import (
	"cmp"
	"slices"
	"sort"
)

// A set is a sorted set of instants by name, as Redis keeps one: ties are in
// the order of the names. A nil set is empty and cannot be added to.
type set struct {
	at   map[string]entry
	list []named // oldest first
}

type named struct {
	at   entry
	name string
}

func newSet() *set { return &set{at: map[string]entry{}} }

func (s *set) len() int {
	if s == nil {
		return 0
	}
	return len(s.list)
}

// score answers the instant of the name, or none.
func (s *set) score(name string) entry {
	if s != nil {
		if at, ok := s.at[name]; ok {
			return at
		}
	}
	return none
}

func (s *set) index(e named) (int, bool) {
	return slices.BinarySearchFunc(s.list, e, func(a, b named) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.name, b.name))
	})
}

// put enters the name, or moves it.
func (s *set) put(name string, at entry) {
	s.drop(name)
	e := named{at, name}
	i, _ := s.index(e)
	s.list = slices.Insert(s.list, i, e)
	s.at[name] = at
}

func (s *set) drop(name string) {
	at := s.score(name)
	if at == none {
		return
	}
	i, _ := s.index(named{at, name})
	s.list = slices.Delete(s.list, i, i+1)
	delete(s.at, name)
}

// newest answers the entry with that rank from the newest, or none.
func (s *set) newest(rank int) entry {
	if rank >= s.len() {
		return none
	}
	return s.list[len(s.list)-1-rank].at
}

// since counts the entries at or after the instant.
func (s *set) since(at entry) int {
	n := s.len()
	return n - sort.Search(n, func(i int) bool { return s.list[i].at >= at })
}

// trim drops the entries up to the instant.
func (s *set) trim(upTo entry) {
	if s == nil {
		return
	}
	n := sort.Search(len(s.list), func(i int) bool { return s.list[i].at > upTo })
	if n == 0 {
		return
	}
	for _, e := range s.list[:n] {
		delete(s.at, e.name)
	}
	s.list = slices.Delete(s.list, 0, n)
}

// newestOf answers the n-th newest entry of the union of the sets, or none, and
// which set it is in. It walks from the newest by runs of one set, of which
// there are few.
func newestOf(sets []*set, n int) (at entry, which int) {
	var rank [3]int
	for {
		first, second := -1, -1
		var head, next entry
		for i, s := range sets {
			switch at := s.newest(rank[i]); {
			case at == none:
			case first < 0 || at > head:
				first, second, head, next = i, first, at, head
			case second < 0 || at > next:
				second, next = i, at
			}
		}
		if first < 0 {
			return none, 0
		}
		run := n
		if second >= 0 {
			run = max(1, sets[first].since(next+1)-rank[first])
		}
		if n <= run {
			return sets[first].newest(rank[first] + n - 1), first
		}
		n -= run
		rank[first] += run
	}
}

// empty drops all, and answers what there was.
func (s *set) empty() []named {
	list := s.list
	s.at, s.list = map[string]entry{}, nil
	return list
}
