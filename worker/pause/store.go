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
//	PREFIX:{pauses}:providers  hash; expires with its last pause
//	PREFIX:{pauses}:operators  hash; keeps an ended pause for a minute
//	PREFIX:{pauses}:resumed    hash of the routes that operators resumed; expires after a minute
//
// store.lua documents the entries. A Store is safe for concurrent use.
type Store struct {
	client redis.UniversalClient
	prefix string
}

// NewStore returns the store under the prefix; "pushpace" if empty.
func NewStore(client redis.UniversalClient, prefix string) *Store {
	return &Store{client, cmp.Or(prefix, "pushpace") + ":{pauses}:"}
}

//go:embed store.lua
var source string

var script = acknowledged.Reader(redis.NewScript(source), "read")

func (s *Store) run(ctx context.Context, op string, args ...any) *redis.Cmd {
	keys := []string{"providers", "operators", "resumed"}
	for i := range keys {
		keys[i] = s.prefix + keys[i]
	}
	return script.Run(ctx, s.client, keys, append([]any{op}, args...)...)
}

const (
	// maxOperators bounds the number of operators' pauses: every worker reads all of them twice a
	// second.
	maxOperators = 1000
	// maxReasonBytes bounds a pause's Reason, so that all reasons have at most 512 kB.
	maxReasonBytes = 512
)

// ErrOver means that the end of a new pause has already passed.
var ErrOver = errors.New("the pause would already be over")

// ErrTooMany means that 1,000 other pauses are in force.
var ErrTooMany = errors.New("too many pauses are in force: end some pauses first")

// Begin begins an operator's pause for all workers, or changes the end and the reason of the
// pause with the same selector. It sets Kind and At. It returns push.Faults, ErrOver or
// ErrTooMany for a pause that cannot begin.
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

// End ends the operator's pause with the same selector, and reports whether it was in force. Its jobs
// return within seconds. p.By names the ending operator for the workers' logs. It returns push.Faults for
// an invalid pause.
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

// Share shares a provider's delay with all workers. It returns false, and changes nothing, if a
// shared delay ends later.
func (s *Store) Share(ctx context.Context, p Pause) (bool, error) {
	length := max(1, time.Until(p.Until).Milliseconds())
	shared, err := s.run(ctx, "share", p.Route(), length, p.entry(Provider)).Int()
	if err != nil {
		return false, fmt.Errorf("share a pause: %w", err)
	}
	return shared == 1, nil
}

// TryAgain ends the providers' pauses of the routes, each APP/PLATFORM. All workers probe these
// routes within a second.
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

// InForce is the set of pauses at one instant. nil means no pauses.
type InForce struct {
	Operators, Providers []Pause
	// Tried is, by APP/PLATFORM, the last resume of a route by an operator. It is kept for a minute.
	Tried map[string]Try
	// Unread are the fields with entries that this version cannot read. They have no effect.
	Unread []string

	bySelector map[selector]Pause // operators' pauses
	ended      []Pause            // operators' pauses ended in about the last minute
}

// A Try is an operator's resume of a route.
type Try struct {
	At int64  `json:"at,string"` // Unix ms of Redis's clock
	By string `json:"by"`
}

// Read reads all pauses in one round trip.
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

// read calls take for the entries of a hash, and adds the fields of unreadable entries to Unread.
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

// On returns the operators' pause in force for that app, push service and category; nil for none. Of
// several pauses it returns the one that ends last or never.
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

// Over reports whether no operator's pause with the selector is in force. It returns false for a name
// that is no selector.
func (f *InForce) Over(now time.Time, selector string) bool {
	return strings.HasPrefix(selector, "[") && // selectors are JSON, route names are not
		!slices.ContainsFunc(f.Operators, func(p Pause) bool { return p.Selector() == selector && p.Left(now) > 0 })
}

// Count returns the number of operators' pauses in force.
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

// Since compares f with an earlier read. It returns the operators' pauses that have begun, and the
// pauses that are over, each with the operator of its end, if known.
func (f *InForce) Since(earlier *InForce) (begun []Pause, over map[*Pause]string) {
	if earlier == nil {
		return f.Operators, nil
	}
	for s, p := range f.bySelector {
		if old, was := earlier.bySelector[s]; !was || !old.At.Equal(p.At) {
			begun = append(begun, p)
		}
	}
	over = map[*Pause]string{}
	for s, p := range earlier.bySelector {
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
