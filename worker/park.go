package worker

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pushpace/pushpace/push"
)

// While a provider is stuck, most of what is pulled may be for it. Each such job
// would go through asynq and back for nothing, at the cost of those for the
// other providers: it is put back here, many in one step.

// pulledInTrouble is how many jobs one pull takes while there may be some to
// park.
const pulledInTrouble = 64

// parkScript is asynq's retryCmd for several jobs that have not failed.
//
// KEYS  active, lease, retry
// ARGV  prefix of the tasks' keys, then of each job: ID, end of its lease, when
// it is due (s)
var parkScript = redis.NewScript(`
for i = 2, #ARGV, 3 do
  local id = ARGV[i]
  local lease = redis.call('ZSCORE', KEYS[2], id)
  if lease and tonumber(lease) == tonumber(ARGV[i + 1]) and redis.call('LREM', KEYS[1], 1, id) == 1 then
    redis.call('ZREM', KEYS[2], id)
    redis.call('ZADD', KEYS[3], ARGV[i + 2], id)
    redis.call('HSET', ARGV[1] .. id, 'state', 'retry')
  end
end
return 0
`)

// park puts back those of the jobs that have to wait for a busy provider, and
// answers the others. Those whose answer is lost come back when their leases
// are over.
func (p *puller) park(ctx context.Context, jobs []pulled, taskPrefix any) ([]pulled, error) {
	now := time.Now()
	crowded := p.crowded(now)
	if len(crowded) == 0 {
		return jobs, nil
	}
	args := []any{taskPrefix}
	rest := jobs[:0]
	for _, job := range jobs {
		if delay := p.busyFor(job.message, crowded, now); delay > 0 {
			args = append(args, job.id, job.lease, now.Add(delay).Unix())
		} else {
			rest = append(rest, job)
		}
	}
	if len(args) == 1 {
		return rest, nil
	}
	active, lease := jobs[0].keys[2], jobs[0].keys[3]
	retry := active[:len(active)-len("active")] + "retry"
	return rest, parkScript.Run(ctx, p.UniversalClient, []string{active, lease, retry}, args...).Err()
}

// crowded are the platforms of which any app's gate is one that nobody should
// stand before.
func (r routes) crowded(now time.Time) (platforms []push.Platform) {
	for _, app := range r {
		for platform, route := range app {
			if route.gate.delay(now) > 0 && !slices.Contains(platforms, platform) {
				platforms = append(platforms, platform)
			}
		}
	}
	return platforms
}

// busyFor is how long a job stays on the queue because it would only stand
// before a gate; 0 when it is to be handed out, as all are that anything but
// their provider's business may decide on. Most that are for none of the crowded
// platforms are told without being decoded.
func (r routes) busyFor(message string, crowded []push.Platform, now time.Time) time.Duration {
	if !slices.ContainsFunc(crowded, func(p push.Platform) bool { return strings.Contains(message, `"platform":"`+string(p)+`"`) }) {
		return 0
	}
	payload, visited := taskOf(message)
	if visited {
		return 0
	}
	job, err := push.Decode(payload)
	if err != nil || job.Replay {
		return 0
	}
	n := job.Notification
	if !n.ExpiresAt.IsZero() && !now.Before(n.ExpiresAt) || n.NotBefore.After(now) || n.CollapseKey != "" {
		return 0
	}
	delay := time.Duration(0)
	for _, t := range n.Targets {
		route := r[n.App][t.Platform]
		if route == nil || route.left(now) > 0 {
			return 0
		}
		delay = max(delay, route.gate.delay(now))
	}
	return delay
}

// The fields of asynq's TaskMessage.
// Source: asynq v0.26, internal/proto/asynq.proto.
const (
	payloadField = 2
	retriedField = 6
)

// taskOf answers the payload of asynq's message, and whether a visit to it has
// failed, or may have. Of a message that it cannot read it says so.
func taskOf(message string) (payload []byte, visited bool) {
	for b := []byte(message); len(b) > 0; {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, true
		}
		b = b[n:]
		switch {
		case field == payloadField && kind == protowire.BytesType:
			payload, n = protowire.ConsumeBytes(b)
		case field == retriedField:
			return nil, true // 0 is not written
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return nil, true
		}
		b = b[n:]
	}
	return payload, false
}
