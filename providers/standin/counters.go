package standin

import "sync/atomic"

// Counters count a stand-in's connections and pushes. The zero value is ready to
// use. They are safe for concurrent use.
type Counters struct {
	connections, open, received, inFlight, peak atomic.Int64
}

// A Count has the values of the counters at one time.
type Count struct {
	// Connections were accepted in all; Open are still open.
	Connections int64 `json:"connections"`
	Open        int64 `json:"open"`
	// Received are the pushes that came in, whatever became of them.
	Received int64 `json:"received"`
	// InFlight are the pushes that wait for their answer; Peak is the most
	// there were at once.
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
