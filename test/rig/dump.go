package rig

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// dumpAt is the prefix of the line of a dump with Redis's time, in µs.
const dumpAt = "# at "

// Dump returns all keys of the database as commands that write them, one command a line, each
// argument quoted as in Go.
func Dump(t *testing.T, client *redis.Client) string {
	t.Helper()
	ctx := t.Context()
	now, err := client.Time(ctx).Result()
	Must(t, err)
	var keys []string
	scan := client.Scan(ctx, 0, "", 1000).Iterator()
	for scan.Next(ctx) {
		keys = append(keys, scan.Val())
	}
	Must(t, scan.Err())
	slices.Sort(keys)
	var text strings.Builder
	fmt.Fprintf(&text, "%s%d\n", dumpAt, now.UnixMicro())
	for _, key := range slices.Compact(keys) {
		for _, command := range dumpKey(ctx, t, client, key) {
			text.WriteString(command[0])
			for _, argument := range command[1:] {
				if strconv.CanBackquote(argument) {
					text.WriteString(" `" + argument + "`")
				} else {
					text.WriteString(" " + strconv.Quote(argument))
				}
			}
			text.WriteByte('\n')
		}
		left, err := client.PTTL(ctx, key).Result()
		Must(t, err)
		if left > 0 {
			fmt.Fprintf(&text, "PEXPIREAT `%s` `%d`\n", key, now.Add(left).UnixMilli())
		}
	}
	return text.String()
}

func dumpKey(ctx context.Context, t *testing.T, client *redis.Client, key string) (commands [][]string) {
	t.Helper()
	kind, err := client.Type(ctx, key).Result()
	Must(t, err)
	var arguments []string
	switch kind {
	case "string":
		value, err := client.Get(ctx, key).Result()
		Must(t, err)
		arguments = []string{"SET", key, value}
	case "hash":
		fields, err := client.HGetAll(ctx, key).Result()
		Must(t, err)
		arguments = []string{"HSET", key}
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			arguments = append(arguments, field, fields[field])
		}
	case "list":
		values, err := client.LRange(ctx, key, 0, -1).Result()
		Must(t, err)
		arguments = append([]string{"RPUSH", key}, values...)
	case "set":
		members, err := client.SMembers(ctx, key).Result()
		Must(t, err)
		slices.Sort(members)
		arguments = append([]string{"SADD", key}, members...)
	case "zset":
		members, err := client.ZRangeWithScores(ctx, key, 0, -1).Result()
		Must(t, err)
		arguments = []string{"ZADD", key}
		for _, m := range members {
			arguments = append(arguments, strconv.FormatFloat(m.Score, 'f', -1, 64), m.Member.(string))
		}
	case "stream":
		entries, err := client.Do(ctx, "XRANGE", key, "-", "+").Slice()
		Must(t, err)
		for _, entry := range entries {
			command := []string{"XADD", key, entry.([]any)[0].(string)}
			for _, part := range entry.([]any)[1].([]any) {
				command = append(command, part.(string))
			}
			commands = append(commands, command)
		}
		return commands
	default:
		t.Fatalf("%s is a %s, which no dump can hold", key, kind)
	}
	return [][]string{arguments}
}

// Load writes a dump into a Redis as if it had been made now: every instant in the dump moves by the
// same number of whole seconds.
func Load(t *testing.T, client *redis.Client, dump string) {
	t.Helper()
	ctx := t.Context()
	now, err := client.Time(ctx).Result()
	Must(t, err)
	var at int64
	var later time.Duration // that number
	pipe := client.Pipeline()
	for line := range strings.Lines(dump) {
		if made, is := strings.CutPrefix(line, dumpAt); is {
			at, err = strconv.ParseInt(strings.TrimSpace(made), 10, 64)
			Must(t, err)
			later = now.Sub(time.UnixMicro(at)).Truncate(time.Second)
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		command, rest, _ := strings.Cut(line, " ")
		arguments := []any{command}
		for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
			quoted, err := strconv.QuotedPrefix(rest)
			Must(t, err)
			argument, err := strconv.Unquote(quoted)
			Must(t, err)
			arguments, rest = append(arguments, moveInstants(argument, time.UnixMicro(at), later)), rest[len(quoted):]
		}
		pipe.Do(ctx, arguments...)
	}
	_, err = pipe.Exec(ctx)
	Must(t, err)
}

// An instant is a second of RFC 3339, or a Unix time in s, ms, µs or ns.
var instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d+`)

// moveInstants moves the instants that are within 30 days of near. The length of their texts does not
// change.
func moveInstants(text string, near time.Time, later time.Duration) string {
	const second = "2006-01-02T15:04:05"
	units := map[int]time.Duration{10: time.Second, 13: time.Millisecond, 16: time.Microsecond, 19: time.Nanosecond}
	return instant.ReplaceAllStringFunc(text, func(found string) string {
		if at, err := time.Parse(second, found); err == nil {
			return at.Add(later).Format(second)
		}
		unit := units[len(found)]
		n, err := strconv.ParseInt(found, 10, 64)
		if err != nil || unit == 0 || near.Sub(time.Unix(0, n*int64(unit))).Abs() > 30*24*time.Hour {
			return found
		}
		return strconv.FormatInt(n+int64(later/unit), 10)
	})
}
