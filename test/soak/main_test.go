//go:build soak && unix

// Package soak tests the program for minutes: random kills, a Cluster that loses masters,
// and load. With -short each test uses smaller numbers.
package soak

import (
	"flag"
	"testing"
	"time"

	"github.com/pushpace/pushpace/test/rig"
)

var (
	length = flag.Duration("for", 0, "how long tests of random trouble last; 0 for their own")
	seeded = flag.Uint64("seed", 1, "what random trouble follows from")
)

func TestMain(m *testing.M) { rig.Main(m) }

// lasts returns the time of -for; without it long, or with -short short.
func lasts(long, short time.Duration) time.Duration {
	switch {
	case *length > 0:
		return *length
	case testing.Short():
		return short
	}
	return long
}

// size returns large, or with -short small.
func size(large, small int) int {
	if testing.Short() {
		return small
	}
	return large
}
