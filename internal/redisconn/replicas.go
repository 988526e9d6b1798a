package redisconn

import (
	"fmt"
	"strings"
)

// online is how many replicas of a master have what it had until lately, by its INFO.
func online(info map[string]string) (n int) {
	for name, value := range info {
		if strings.HasPrefix(name, "slave") && strings.Contains(value, "state=online") {
			n++
		}
	}
	return n
}

// unacknowledged says what keeps a master, by its INFO, from having its writes acknowledged by
// so many replicas, or from keeping them.
func unacknowledged(info map[string]string, replicas int) (found findings) {
	if replicas == 0 || info["role"] == "slave" {
		return found
	}
	if n := online(info); n < replicas {
		found.outages = []string{fmt.Sprintf("has %d replicas, and acknowledged asks for %d, so that nothing can be written there: bring them back, or lower acknowledged", n, replicas)}
	}
	if info["aof_enabled"] == "0" {
		found.losses = []string{"appendonly is no, so that a master that restarts sooner than a replica takes its place comes back without what was acknowledged: set appendonly yes"}
	}
	return found
}
