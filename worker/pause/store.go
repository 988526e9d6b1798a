package pause

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/push"
)

// A Store shares the pauses among all workers, in keys of one hash tag:
//
//	PREFIX:{pauses}:providers  hash, no longer than the last of them
//	PREFIX:{pauses}:operators  hash; what was ended stays for a while
//	PREFIX:{pauses}:resumed    hash of what operators had tried again, for a minute
//
// store.lua says what is in each. It is safe for concurrent use.
type Store struct {
	client redis.UniversalClient
	prefix string
}

// NewStore returns the store under the prefix, "pushpace" when it is empty.
func NewStore(client redis.UniversalClient, prefix string) *Store {
	return &Store{client, cmp.Or(prefix, "pushpace") + ":{pauses}:"}
}

//go:embed store.lua
var source string

var script = acknowledged.Reader(redis.NewScript(source), "read")

// run runs an operation.
func (s *Store) run(ctx context.Context, op string, args ...any) *redis.Cmd {
	keys := []string{"providers", "operators", "resumed"}
	for i := range keys {
		keys[i] = s.prefix + keys[i]
	}
	return script.Run(ctx, s.client, keys, append([]any{op}, args...)...)
}

const (
	// maxOperators bounds how many operators' pauses there are: every worker reads all of them
	// twice a second.
	maxOperators = 1000
	// maxReasonBytes bounds the text of each: they are 512 kB together at most.
	maxReasonBytes = 512
)

// ErrOver means that the end of a pause that was to begin has passed.
var ErrOver = errors.New("the pause would be over already")

// ErrTooMany means that 1,000 others are in force.
var ErrTooMany = errors.New("too many pauses are in force: end some of them first")

// Begin begins an operator's pause for all workers, or changes the end and the
// reason of the one that matches the same. It sets Kind and At. It returns
// push.Faults, ErrOver or ErrTooMany for what cannot begin.
func (s *Store) Begin(ctx context.Context, p *Pause) error {
	if err := p.Validate(); err != nil {
		return err
	}
	begun, err := s.run(ctx, "begin", p.Selector(), p.entry(Operator), maxOperators).Int64()
	switch {
	case err != nil:
		return fmt.Errorf("begin a pause: %w", err)
	case begun == -1:
		return ErrOver
	case begun == -2:
		return ErrTooMany
	}
	p.Kind, p.At = Operator, time.UnixMilli(begun).UTC()
	return nil
}

// End ends the operator's pause that matches the same, and reports whether there was
// one. What it kept comes back within seconds. Of the pause, By is who ends it, for
// the workers' logs. It returns push.Faults for what cannot be one.
func (s *Store) End(ctx context.Context, p Pause) (bool, error) {
	if err := p.Validate(); err != nil {
		return false, err
	}
	ended, err := s.run(ctx, "end", p.Selector(), p.By).Int()
	if err != nil {
		return false, fmt.Errorf("end a pause: %w", err)
	}
	return ended == 1, nil
}

// Share shares a delay that a provider has asked for with all workers. It returns false, and changes
// nothing, if a shared delay ends later.
func (s *Store) Share(ctx context.Context, p Pause) (bool, error) {
	length := max(1, time.Until(p.Until).Milliseconds())
	shared, err := s.run(ctx, "share", p.Route(), length, p.entry(Provider)).Int()
	if err != nil {
		return false, fmt.Errorf("share a pause: %w", err)
	}
	return shared == 1, nil
}

// TryAgain ends the providers' pauses of the routes, APP/PLATFORM each, and has all
// workers try them again within a second.
func (s *Store) TryAgain(ctx context.Context, by string, routes []string) error {
	args := []any{by}
	for _, route := range routes {
		args = append(args, route)
	}
	if err := s.run(ctx, "try", args...).Err(); err != nil {
		return fmt.Errorf("end a provider's pause: %w", err)
	}
	return nil
}

// InForce is what keeps all workers from sending at one instant. A nil one is
// nothing.
type InForce struct {
	Operators, Providers []Pause
	// Tried tells by APP/PLATFORM who has had providers tried again of late.
	Tried map[string]Try
	// Unread are the fields of what is not of this version, and has no effect.
	Unread []string

	bySelector map[selector]Pause // the operators'
	ended      []Pause            // operators', not long ago, by somebody
}

// A Try is that an operator has had a provider tried again.
type Try struct {
	At int64  `json:"at,string"` // Unix ms of Redis's clock
	By string `json:"by"`
}

// Read reads everything in one round trip.
func (s *Store) Read(ctx context.Context) (*InForce, error) {
	asked := time.Now()
	reply, err := s.run(ctx, "read").Slice()
	if err != nil {
		return nil, fmt.Errorf("list the pauses: %w", err)
	}
	ms, _ := reply[0].(int64)
	now := time.UnixMilli(ms)
	all := &InForce{Tried: map[string]Try{}, bySelector: map[selector]Pause{}}
	read(all, reply[1], func(_ string, e entry) {
		if p, lasts := e.pause(now, asked); lasts {
			p.Until = p.ends
			all.Providers = append(all.Providers, p)
		}
	})
	read(all, reply[2], func(_ string, e entry) {
		if p, lasts := e.pause(now, asked); lasts {
			all.bySelector[p.selector()] = p
		} else if p.endedBy != "" {
			all.ended = append(all.ended, p)
		}
	})
	read(all, reply[3], func(route string, t Try) { all.Tried[route] = t })
	slices.SortFunc(all.Providers, func(a, b Pause) int { return strings.Compare(a.Route(), b.Route()) })
	all.Operators = slices.SortedFunc(maps.Values(all.bySelector), func(a, b Pause) int { return strings.Compare(a.Selector(), b.Selector()) })
	return all, nil
}

// read reads the entries of a hash, and notes those that cannot be read.
func read[T entry | Try](f *InForce, hash any, take func(field string, e T)) {
	list, _ := hash.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		field, _ := list[i].(string)
		text, _ := list[i+1].(string)
		var e T
		if json.Unmarshal([]byte(text), &e) == nil {
			take(field, e)
		} else {
			f.Unread = append(f.Unread, field)
		}
	}
}

// On returns an operator's pause of what is sent for that app and category to that
// push service, the one without an end or with the last one where there are several; nil
// when there is none.
func (f *InForce) On(now time.Time, app string, service push.Platform, category string) *Pause {
	if f == nil || len(f.bySelector) == 0 {
		return nil
	}
	var last *Pause
	for _, app := range []string{app, ""} {
		for _, platform := range []push.Platform{service, push.PlatformOf(service), ""} {
			for _, category := range []string{category, ""} {
				p, ok := f.bySelector[selector{app, string(platform), category}]
				if !ok || p.Left(now) <= 0 {
					continue
				}
				if last == nil || p.Left(now) > last.Left(now) {
					last = &p
				}
			}
		}
	}
	return last
}

// Over reports whether that is the selector of a pause, and of none that is in force then.
func (f *InForce) Over(now time.Time, selector string) bool {
	return strings.HasPrefix(selector, "[") && // JSON, and no route's name
		!slices.ContainsFunc(f.Operators, func(p Pause) bool { return p.Selector() == selector && p.Left(now) > 0 })
}

// Count is how many operators' pauses are in force.
func (f *InForce) Count(now time.Time) int {
	n := 0
	if f != nil {
		for i := range f.Operators {
			if f.Operators[i].Left(now) > 0 {
				n++
			}
		}
	}
	return n
}

// Since returns the operators' pauses that have begun since an earlier instant, and
// those that have ended, with who has ended them where that is known.
func (f *InForce) Since(before *InForce) (begun []Pause, over map[*Pause]string) {
	if before == nil {
		return f.Operators, nil
	}
	for s, p := range f.bySelector {
		if old, was := before.bySelector[s]; !was || !old.At.Equal(p.At) {
			begun = append(begun, p)
		}
	}
	over = map[*Pause]string{}
	for s, p := range before.bySelector {
		if _, is := f.bySelector[s]; is {
			continue
		}
		over[&p] = ""
		for i := range f.ended {
			if end := &f.ended[i]; end.selector() == s && end.At.Equal(p.At) {
				over[&p] = end.endedBy
			}
		}
	}
	return begun, over
}
