package throttle

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// faultsOfSlots checks a user's keys: `lines` counts the entries of `slots`, and the entries of
// `early` are in `slots` with the same time.
func faultsOfSlots(ctx context.Context, client *redis.Client, k *keys) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	slots, err1 := client.ZRangeWithScores(ctx, k.slots, 0, -1).Result()
	early, err2 := client.ZRangeWithScores(ctx, k.early(), 0, -1).Result()
	lines, err3 := client.HGetAll(ctx, k.lines()).Result()
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			fault("%v", err)
		}
	}
	held, at := map[string]int{}, map[string]float64{}
	for _, z := range slots {
		member, _ := z.Member.(string)
		line, _ := lineOf(member)
		held[line.name()]++
		at[member] = z.Score
	}
	for name, count := range lines {
		if _, line, stamp := strings.Cut(name, ":"); stamp {
			if line != "" && lines[line] == "" {
				fault("of the line %q nobody is counted, and %q is left", line, name)
			}
			continue
		}
		if count != fmt.Sprint(held[name]) {
			fault("of the line %q %d hold slots, and %q are counted", name, held[name], count)
		}
		delete(held, name)
	}
	for name, n := range held {
		fault("of the line %q %d hold slots, and none is counted", name, n)
	}
	for _, z := range early {
		member, _ := z.Member.(string)
		if slot, is := at[member]; !is || slot != z.Score {
			fault("%q is early at %.0f, and its slot is at %.0f", member, z.Score, slot)
		}
	}
	if len(slots) == 0 && len(lines) > 0 {
		fault("nobody waits, and of lines is left %v", lines)
	}
	return faults
}
