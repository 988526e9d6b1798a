package store

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
)

// A collapse key has a claim, "INSTANT ID" of the newest notification with it, and
// the IDs of those that are still to be superseded, by until when somebody does it
// (ms), so that a worker that crashes in between leaves what the next one needs.
//
// KEYS  the claim, the older ones
// ARGV  instant (µs), ID, life (ms), now (ms), how long somebody may take (ms), how
// many to answer; then the IDs of those that are superseded
//
// It answers whether the notification is the newest, and older ones.
var collapseScript = redis.NewScript(`
for i = 7, #ARGV do redis.call('ZREM', KEYS[2], ARGV[i]) end
local claim, back = redis.call('GET', KEYS[1]), false
if claim then
  local instant, id = string.match(claim, '^(%d+) (.*)$')
  if id == ARGV[2] then
    back = #ARGV == 6
  else
    if tonumber(instant) > tonumber(ARGV[1]) or tonumber(instant) == tonumber(ARGV[1]) and id > ARGV[2] then return {0} end
    redis.call('ZADD', KEYS[2], 0, id)
  end
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
local older, answer = {}, {1}
if back then older = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[4], '+inf', 'LIMIT', 0, ARGV[6]) end -- its own of the last visit
if #older == 0 then older = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[4], 'LIMIT', 0, ARGV[6]) end
for _, id in ipairs(older) do
  redis.call('ZADD', KEYS[2], ARGV[4] + ARGV[5], id)
  answer[#answer + 1] = id
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return answer
`)

const (
	// collapsePage is how many older ones are answered at once.
	collapsePage = 100
	// collapseTime is for how long nobody else is answered them. One that breaks off
	// is answered them again at once.
	collapseTime = 5 * time.Second
)

// A CollapseKey is one of a user's.
type CollapseKey struct{ App, User, Key string }

// Collapse claims the notification's collapse key for the
// time that it waits and the retention. It answers whether the notification is
// the newest with it, by when they were accepted, and the IDs of some of those that
// it supersedes. The next call says which of them are done, and answers others,
// until there are none.
func (r *Shard) Collapse(ctx context.Context, key CollapseKey, id string, accepted time.Time, wait time.Duration, done []string) (newest bool, older []string, err error) {
	args := []any{
		accepted.UnixMicro(), id, (wait + r.retention).Milliseconds(),
		time.Now().UnixMilli(), collapseTime.Milliseconds(), collapsePage,
	}
	for _, each := range done {
		args = append(args, each)
	}
	reply, err := collapseScript.Run(ctx, r.client, []string{r.collapseKey(key, "collapse:"), r.collapseKey(key, "collapsing:")}, args...).Slice()
	if err != nil {
		return false, nil, fmt.Errorf("collapse key: %w", err)
	}
	for _, id := range reply[1:] {
		text, _ := id.(string)
		older = append(older, text)
	}
	return reply[0] == int64(1), older, nil
}

func (r *Shard) collapseKey(key CollapseKey, kind string) string {
	user := url.QueryEscape(key.App) + "/" + url.QueryEscape(key.User)
	return r.Key(kind + user + "/" + url.QueryEscape(key.Key))
}
