package redisconn

import (
	"fmt"
	"strconv"
	"strings"
)

// replicas returns the number of replicas that have all keys of a master with these fields of INFO.
func replicas(info map[string]string) (n int) {
	for name, value := range info { // slave0:ip=…,port=…,state=online,offset=…,lag=…
		_, err := strconv.Atoi(strings.TrimPrefix(name, "slave"))
		if strings.HasPrefix(name, "slave") && err == nil && strings.Contains(value, ",state=online,") {
			n++
		}
	}
	return n
}

// missingReplicas returns an outage if a master, by its INFO, has fewer replicas than must acknowledge
// its writes.
func missingReplicas(info map[string]string, asked int) (outages []string) {
	if n := replicas(info); n < asked && info["role"] == "master" {
		outages = []string{fmt.Sprintf("has %d replicas, and acknowledged requires %d, so that it accepts no writes: bring replicas back, or lower acknowledged", n, asked)}
	}
	return outages
}

// lostAcknowledgements returns a loss if a master, by its INFO, does not persist acknowledged writes.
func lostAcknowledgements(info map[string]string, asked int) (losses []string) {
	if asked > 0 && info["aof_enabled"] == "0" {
		losses = []string{"appendonly is no, so that a master that restarts before a replica replaces it loses acknowledged writes: set appendonly yes"}
	}
	return losses
}
