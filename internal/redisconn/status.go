package redisconn

import (
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/config"
)

// A Status is a Redis's error state. The zero value is healthy.
type Status struct {
	Trouble redisreply.Trouble // of the whole Redis
	Nodes   []NodeTrouble      // nodes in an error state, if Trouble is None
}

// A NodeTrouble is the error state of one node of a Cluster.
type NodeTrouble struct {
	Address string
	Trouble redisreply.Trouble
}

func (s Status) isHealthy() bool { return s.Trouble == redisreply.None && len(s.Nodes) == 0 }

// A condition is the known state of a Redis, or of one node. The zero value is healthy.
type condition struct {
	trouble      redisreply.Trouble
	since        time.Time // when the error state began
	healthySince time.Time // when checks began to succeed again; zero in an error state
}

// next returns the condition after a check.
func (c condition) next(trouble redisreply.Trouble, now time.Time) condition {
	switch {
	case trouble != redisreply.None:
		if c.trouble == redisreply.None {
			c.since = now
		}
		c.trouble, c.healthySince = trouble, time.Time{}
	case c.trouble == redisreply.None:
	case c.healthySince.IsZero():
		c.healthySince = now
	case now.Sub(c.healthySince) >= recheckInterval:
		c = condition{}
	}
	return c
}

// A change is the transition of a condition by a check.
type change struct {
	name, node    string // node is "" except for a Cluster's node
	effect        string
	before, after condition
	err           error // the error that reports the state
	left          bool  // the node has left the Cluster
}

// log logs an error state that begins, changes or ends.
func (c change) log(log *slog.Logger, cfg config.Redis, now time.Time) {
	args := []any{"address", cfg.Address.String()}
	if c.node != "" {
		args = append(args, "node", c.node)
	}
	switch {
	case c.after.trouble == c.before.trouble, c.after.trouble == redisreply.Starting && c.before.trouble != redisreply.None:
	case c.after.trouble == redisreply.None:
		says := " is well again"
		if c.left {
			says = " has left the Cluster"
		}
		log.Info(c.name+says, append(args, "was", string(c.before.trouble), "lasted", now.Sub(c.before.since).Round(time.Millisecond))...)
	default:
		log.Error(c.name+" "+c.after.trouble.Text()+": "+c.effect, append(args, "trouble", string(c.after.trouble), "error", Explain(c.err, cfg))...)
	}
}
