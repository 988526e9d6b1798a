package standin

import "sync/atomic"

// Counters count a stand-in's connections and pushes. The zero value is ready to
// use. They are safe for concurrent use.
type Counters struct {
	connections, open, received, inFlight, peak atomic.Int64
}

// A Count has the values of the counters at one time.
type Count struct {
	// Connections is the number of accepted connections, Open the number of open ones.
	Connections int64 `json:"connections"`
	Open        int64 `json:"open"`
	// Received is the number of received pushes, whatever their answer.
	Received int64 `json:"received"`
	// InFlight is the number of pushes that wait for their answer, Peak its greatest value.
	InFlight int64 `json:"in_flight"`
	Peak     int64 `json:"peak"`
}

// Opened counts a new connection.
func (c *Counters) Opened() { c.connections.Add(1); c.open.Add(1) }

// Closed counts the end of a connection.
func (c *Counters) Closed() { c.open.Add(-1) }

// Begin counts a push that came in.
func (c *Counters) Begin() {
	c.received.Add(1)
	n := c.inFlight.Add(1)
	for {
		peak := c.peak.Load()
		if n <= peak || c.peak.CompareAndSwap(peak, n) {
			return
		}
	}
}

// End counts a push that was answered, or never will be.
func (c *Counters) End() { c.inFlight.Add(-1) }

// Count reads the counters.
func (c *Counters) Count() Count {
	return Count{
		Connections: c.connections.Load(),
		Open:        c.open.Load(),
		Received:    c.received.Load(),
		InFlight:    c.inFlight.Load(),
		Peak:        c.peak.Load(),
	}
}
