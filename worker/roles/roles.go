// Package roles says how each worker serves each shard.
package roles

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A Role is how a worker serves a shard. What is done in one step for many jobs costs less
// for each, so each worker keeps to few shards. Any worker may take any job at any time:
// where a role is wrong, or two have it, some jobs come late by seconds, and none is lost.
type Role int

// The roles.
const (
	Leads    Role = iota // it is told of each job that is due
	StandsBy             // it looks often: who leads may be gone
	Helps                // it looks now and then: there may be much to do
)

// helps is how many times as seldom a process that helps does what one that stands by does.
const helps = 8

// Looks is each how many times a quarter of a poll passes that a process of that role looks
// whether any job is due; 0 for never.
func (r Role) Looks() int {
	switch r {
	case StandsBy:
		return 1
	case Helps:
		return helps
	}
	return 0
}

// Rests reports whether a process of that role leaves its nth turn at what all do now and
// then to others.
func (r Role) Rests(n int64) bool { return r == Helps && n%helps != 0 }

// Polls is how often a process of that role asks a queue that was empty, where one that leads
// does so that often. What looks by itself asks when it finds something.
func (r Role) Polls(leads time.Duration) time.Duration {
	if r.Looks() > 0 {
		return 8 * leads
	}
	return leads
}

// Roles are how a worker serves each shard. The zero value leads all of them. They are safe
// for concurrent use.
type Roles struct {
	known atomic.Pointer[[]Role] // by the shards' numbers
}

// Of returns the role in that shard.
func (r *Roles) Of(shard int) Role {
	if known := r.known.Load(); known != nil {
		return (*known)[shard]
	}
	return Leads
}

// Take takes over those of the worker among those that serve the queue, in so many shards.
func (r *Roles) Take(id string, serving []string, shards int) {
	all := rolesOf(id, serving, shards)
	r.known.Store(&all)
}

// Forget has the worker lead all, since nobody knows who serves.
func (r *Roles) Forget() { r.known.Store(nil) }

// rolesOf returns how a worker serves each of so many shards, among those that serve the
//
//	They stand in a ring, and each has the same part of the shards, which are blocks of
//
// hash slots in their order: those that its part touches it leads, and it stands by in those
// of the one before it. A worker that is not among them helps; where there are none, all lead.
func rolesOf(id string, serving []string, shards int) []Role {
	ring := slices.SortedFunc(slices.Values(serving), func(a, b string) int {
		return cmp.Or(strings.Compare(drawn(a), drawn(b)), strings.Compare(a, b))
	})
	at, n := slices.Index(ring, id), len(ring)
	all := make([]Role, shards)
	switch {
	case n == 0:
		return all
	case at < 0:
		return slices.Repeat([]Role{Helps}, shards)
	}
	touches := func(worker, shard int) bool { return worker*shards < (shard+1)*n && (worker+1)*shards > shard*n }
	for shard := range all {
		switch {
		case touches(at, shard):
			all[shard] = Leads
		case touches((at+n-1)%n, shard):
			all[shard] = StandsBy
		default:
			all[shard] = Helps
		}
	}
	return all
}

// drawn is the random end of a worker's ID: by it those of one machine are not neighbours.
func drawn(id string) string { return id[strings.LastIndex(id, "-")+1:] }
