package push

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A claim to a collapse key is "INSTANT ID", or "INSTANT ID OLDER…" as long as
// older ones are still to be superseded, so that a worker that crashes in
// between leaves what the next one needs. IDs are percent-encoded.
//
// KEYS  the collapse key's
// ARGV  instant (µs), ID, life (ms)
var collapseScript = redis.NewScript(`
local claim = redis.call('GET', KEYS[1])
local older = ''
if claim then
  local instant, id, left = string.match(claim, '^(%d+) (%S+) ?(.*)$')
  if id == ARGV[2] then
    older = left
  elseif tonumber(instant) > tonumber(ARGV[1]) or tonumber(instant) == tonumber(ARGV[1]) and id > ARGV[2] then
    return {0, ''}
  else
    older = left == '' and id or id .. ' ' .. left
  end
end
local own = ARGV[1] .. ' ' .. ARGV[2]
if older ~= '' then own = own .. ' ' .. older end
redis.call('SET', KEYS[1], own, 'PX', ARGV[3])
return {1, older}
`)

// Collapse claims the notification's collapse key, of its app and user, for the
// time that it waits and the retention. It answers whether the notification is
// the newest with it, by when they were accepted, and the IDs of those that it
// supersedes. Collapsed tells that this is done.
func (r *Records) Collapse(ctx context.Context, n *Notification, accepted time.Time, wait time.Duration) (newest bool, older []string, err error) {
	reply, err := collapseScript.Run(ctx, r.client, []string{r.collapseKey(n)},
		accepted.UnixMicro(), url.QueryEscape(n.ID), (wait + r.retention).Milliseconds()).Slice()
	if err != nil {
		return false, nil, fmt.Errorf("collapse key: %w", err)
	}
	text, _ := reply[1].(string)
	for escaped := range strings.FieldsSeq(text) {
		id, err := url.QueryUnescape(escaped)
		if err != nil {
			return false, nil, fmt.Errorf("collapse key: %w", err)
		}
		older = append(older, id)
	}
	return reply[0] == int64(1), older, nil
}

// Collapsed tells that those that Collapse has named are superseded.
func (r *Records) Collapsed(ctx context.Context, n *Notification, accepted time.Time) error {
	own := strconv.FormatInt(accepted.UnixMicro(), 10) + " " + url.QueryEscape(n.ID)
	err := collapsedScript.Run(ctx, r.client, []string{r.collapseKey(n)}, own).Err()
	if err != nil {
		return fmt.Errorf("collapse key: %w", err)
	}
	return nil
}

var collapsedScript = redis.NewScript(`
local claim = redis.call('GET', KEYS[1])
if claim and string.sub(claim, 1, #ARGV[1] + 1) == ARGV[1] .. ' ' then
  redis.call('SET', KEYS[1], ARGV[1], 'KEEPTTL')
end
return 0
`)

func (r *Records) collapseKey(n *Notification) string {
	user := url.QueryEscape(n.App) + "/" + url.QueryEscape(n.User)
	return r.tag(shardOf(user)) + "collapse:" + strings.Join([]string{user, url.QueryEscape(n.CollapseKey)}, "/")
}
