package worker

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A Pause keeps all workers from sending on behalf of one app to one platform,
// because of what its provider answers: operators' pauses are Holds. What waits
// for it is kept on the queue.
type Pause struct {
	App      string        `json:"app"`
	Platform push.Platform `json:"platform"`
	// Reason is why, from a closed set.
	Reason providers.Reason `json:"reason"`
	// Until is when it ends, on the local clock; zero when it has no end.
	Until time.Time `json:"until,omitzero"`
	// level counts the pauses for misconfiguration in a row, this one included.
	level int
}

// Pauses are shared by all workers, in one hash:
//
//	PREFIX:{pauses}:providers    by APP/PLATFORM: "END LEVEL REASON", END in
//	                             Unix ms of Redis's clock, 0 when it has none
//
// It lives no longer than the last of them.
type Pauses struct {
	client redis.UniversalClient
	keys   []string // its own, and what Holds keep beside it
}

// NewPauses returns the pauses under the prefix, "pushpace" when it is empty.
func NewPauses(client redis.UniversalClient, prefix string) *Pauses {
	return &Pauses{client, []string{pausesKey(prefix, "providers"), pausesKey(prefix, "operators"), pausesKey(prefix, "holding")}}
}

// pausesKey is a key of the pauses, which share a hash tag.
func pausesKey(prefix, name string) string {
	if prefix == "" {
		prefix = "pushpace"
	}
	return prefix + ":{pauses}:" + name
}

//go:embed pauses.lua
var pausesSource string

var pausesScript = redis.NewScript(pausesSource)

// List answers the pauses that last, sorted by app and platform.
func (p *Pauses) List(ctx context.Context) ([]Pause, error) {
	all, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	return all.pauses, nil
}

// shared is what keeps all workers from sending.
type shared struct {
	pauses []Pause
	holds  []Hold
	ended  []Hold // not long ago, by somebody
	// holding are the selectors of holds, in force or not, that hold jobs.
	holding []string
}

// read reads everything in one round trip.
func (p *Pauses) read(ctx context.Context) (all shared, err error) {
	asked := time.Now()
	reply, err := pausesScript.Run(ctx, p.client, p.keys).Slice()
	if err != nil {
		return all, fmt.Errorf("list the pauses: %w", err)
	}
	now, _ := reply[0].(int64)
	err = pairs(reply[1], func(field, value string) error {
		pause, left, err := readPause(field, value, now)
		if left > 0 {
			pause.Until = asked.Add(left)
		}
		if left >= 0 {
			all.pauses = append(all.pauses, pause)
		}
		return err
	})
	if err == nil {
		err = pairs(reply[2], func(field, value string) error {
			hold, err := readHold(field, value)
			if left := hold.Until.UnixMilli() - now; hold.Until.IsZero() || left > 0 {
				hold.over = asked.Add(time.Duration(left) * time.Millisecond)
				all.holds = append(all.holds, hold)
			} else if hold.endedBy != "" {
				all.ended = append(all.ended, hold)
			}
			return err
		})
	}
	if err != nil {
		return shared{}, fmt.Errorf("list the pauses: %w", err)
	}
	holding, _ := reply[3].([]any)
	for _, selector := range holding {
		all.holding = append(all.holding, fmt.Sprint(selector))
	}
	slices.SortFunc(all.pauses, func(a, b Pause) int { return strings.Compare(a.field(), b.field()) })
	slices.SortFunc(all.holds, func(a, b Hold) int { return strings.Compare(a.selector().field(), b.selector().field()) })
	return all, nil
}

// pairs calls f for each field of a hash.
func pairs(hash any, f func(field, value string) error) error {
	fields, _ := hash.([]any)
	for i := 0; i+1 < len(fields); i += 2 {
		field, _ := fields[i].(string)
		value, _ := fields[i+1].(string)
		if err := f(field, value); err != nil {
			return err
		}
	}
	return nil
}

var errPause = errors.New("an entry is not one of this version")

// readPause reads an entry of the hash. left is negative when the pause is over,
// and 0 when it has no end.
func readPause(field, value string, now int64) (p Pause, left time.Duration, err error) {
	slash := strings.LastIndexByte(field, '/')
	parts := strings.SplitN(value, " ", 3)
	if slash < 0 || len(parts) != 3 {
		return p, 0, errPause
	}
	ends, err1 := strconv.ParseInt(parts[0], 10, 64)
	level, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return p, 0, errPause
	}
	p = Pause{App: field[:slash], Platform: push.Platform(field[slash+1:]), Reason: providers.Reason(parts[2]), level: level}
	if ends == 0 {
		return p, 0, nil
	}
	if left = time.Duration(ends-now) * time.Millisecond; left <= 0 {
		left = -1
	}
	return p, left, nil
}

func (p *Pause) field() string { return p.App + "/" + string(p.Platform) }

// begin has all workers pause, unless a longer pause stands: then it answers
// false.
func (p *Pauses) begin(ctx context.Context, pause Pause) (bool, error) {
	length := int64(0)
	if !pause.Until.IsZero() {
		length = max(1, time.Until(pause.Until).Milliseconds())
	}
	set, err := pausesScript.Run(ctx, p.client, p.keys, pause.field(), length, pause.level, string(pause.Reason)).Int()
	if err != nil {
		return false, fmt.Errorf("share a pause: %w", err)
	}
	return set == 1, nil
}
