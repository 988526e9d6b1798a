package meter

import (
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// NewPatient is NewRedis with a long timeout, for a machine that is busy with tests.
func NewPatient(client redis.UniversalClient, prefix string) *Redis {
	r := NewRedis(client, prefix)
	r.timeout = time.Minute
	return r
}

// NewRedisAt returns a meter with its clock, in µs, in a key of Redis. It ignores keys that have
// expired by that clock.
func NewRedisAt(client redis.UniversalClient, prefix, clock string) *Redis {
	r := NewPatient(client, prefix)
	on := func(source string) *redis.Script {
		const time = "redis.call('TIME')"
		if strings.Count(source, "local clock = "+time) != 1 {
			panic("the script does not read its clock by the one line that this test replaces")
		}
		return redis.NewScript(strings.Replace(`
local clock = {0, redis.call('GET', '`+clock+`')}
for _, key in ipairs(KEYS) do
  local expires = redis.call('PEXPIRETIME', key)
  if expires >= 0 and expires * 1000 <= tonumber(clock[2]) then redis.call('DEL', key) end
end
`+source, "local clock = "+time, "", 1))
	}
	r.bucket, r.cells = on(bucketSource), on(cellsSource)
	return r
}
