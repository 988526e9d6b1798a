package redisconn

import (
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/config"
)

// A Status is what trouble a Redis is in. The zero value is none.
type Status struct {
	Trouble redisreply.Trouble // of all of it
	Nodes   []NodeTrouble      // of a Cluster that is not in trouble as a whole
}

// A NodeTrouble is the trouble of one node of a Cluster.
type NodeTrouble struct {
	Address string
	Trouble redisreply.Trouble
}

func (s Status) well() bool { return s.Trouble == redisreply.None && len(s.Nodes) == 0 }

// A condition is what is known of a Redis, or of one node. The zero value is that
// it is well.
type condition struct {
	trouble redisreply.Trouble
	since   time.Time // when the trouble began
	well    time.Time // since when it has been well again; zero for not
}

// next is the condition after a look.
func (c condition) next(trouble redisreply.Trouble, now time.Time) condition {
	switch {
	case trouble != redisreply.None:
		if c.trouble == redisreply.None {
			c.since = now
		}
		c.trouble, c.well = trouble, time.Time{}
	case c.trouble == redisreply.None:
	case c.well.IsZero():
		c.well = now
	case now.Sub(c.well) >= lookAgain:
		c = condition{}
	}
	return c
}

// A change is how a condition becomes another, by a look.
type change struct {
	name, node    string // of whom; node is "" but for one of a Cluster
	effect        string
	before, after condition
	err           error // that tells of the trouble
	left          bool  // the node has
}

// log tells of trouble that begins, becomes another or is over.
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
			says = " has left"
		}
		log.Info(c.name+says, append(args, "was", string(c.before.trouble), "lasted", now.Sub(c.before.since).Round(time.Millisecond))...)
	default:
		log.Error(c.name+" "+c.after.trouble.Says()+": "+c.effect, append(args, "trouble", string(c.after.trouble), "error", Explain(c.err, cfg))...)
	}
}
