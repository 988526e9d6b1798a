// Command bench compares pushpace with compositions of other libraries. It has its own module, so
// that these libraries stay out of pushpace's go.mod.
//
//	go -C bench run . NAME -redis 127.0.0.1:6379 -json
//
// The benches are api, backlog, dispatch, latency, limiters, quiet and throttle. These need no
// running Redis: send, cluster, and figure, which draws the picture of docs/limiters.md.
//
// Contestants take turns in one run; a figure is the median of its rounds. Each run has its own key
// prefix, and removes its keys at its end.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A bench prints its progress to standard error, and returns its figures.
type bench func(ctx context.Context, b *run) (map[string]any, error)

var benches = map[string]bench{"api": apiBench, "backlog": backlogBench, "cluster": clusterBench, "dispatch": dispatchBench, "figure": figureBench, "latency": latencyBench, "limiters": limitersBench, "quiet": quietBench, "send": sendBench, "throttle": throttleBench}

// A run is the environment of every bench.
type run struct {
	addr   string
	rounds int
	prefix string
	admin  *redis.Client // nil if there is no Redis and the bench needs none
	redis  string        // version of that Redis

	n       int    // notifications a round; 0 for the bench's own number
	profile string // path prefix of the profiles of an extra round; empty for none
	svg     string // path of the figure
}

func main() {
	if err := benchmark(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func benchmark(args []string) error {
	names := make([]string, 0, len(benches))
	for name := range benches {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(args) > 0 && args[0] == standInCommand {
		return serveStandIns(args[1:])
	}
	if len(args) > 0 && args[0] == loadCommand {
		return carryLoad(context.Background())
	}
	if len(args) > 0 && args[0] == contestantCommand {
		return takeTurn(context.Background())
	}
	usage := "usage: bench " + strings.Join(names, "|") + " -redis HOST:PORT [-json] [-rounds N]"
	if len(args) == 0 || benches[args[0]] == nil {
		return fmt.Errorf("%s", usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	addr := flags.String("redis", "127.0.0.1:6379", "`address` of a Redis to load")
	asJSON := flags.Bool("json", false, "print one JSON object")
	rounds := flags.Int("rounds", 5, "rounds of each contestant")
	n := flags.Int("n", 0, "notifications a round, where the bench sends any")
	profile := flags.String("profile", "", "dispatch: write profiles of an extra round to `PREFIX`.cpu and .allocs")
	svg := flags.String("svg", "", "figure: draw into this `FILE`")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	r := &run{addr: *addr, rounds: max(5, *rounds), prefix: fmt.Sprintf("bench-%d", time.Now().UnixNano()), n: *n, profile: *profile, svg: *svg}
	if err := r.connect(ctx); err != nil && !slices.Contains([]string{"send", "cluster", "figure"}, args[0]) {
		return err
	}
	defer r.clean()
	figures, err := benches[args[0]](ctx, r)
	if err != nil {
		return err
	}
	env := map[string]any{"cpus": runtime.NumCPU(), "go": runtime.Version(), "commit": commit()}
	if r.admin != nil {
		env["redis"] = r.redis
	}
	figures["env"] = env
	out := json.NewEncoder(os.Stdout)
	if !*asJSON {
		out.SetIndent("", "  ")
	}
	return out.Encode(figures)
}

// connect connects to the Redis at addr.
func (r *run) connect(ctx context.Context) error {
	// go-redis logs every failed try to the terminal.
	probe, err := net.DialTimeout("tcp", r.addr, 5*time.Second)
	if err != nil {
		return fmt.Errorf("redis %s: %w", r.addr, err)
	}
	_ = probe.Close()
	admin := r.client(4)
	info, err := admin.Info(ctx, "server").Result()
	if err != nil {
		_ = admin.Close()
		return fmt.Errorf("redis %s: %w", r.addr, err)
	}
	r.admin, r.redis = admin, field(info, "redis_version")
	return nil
}

// client returns a client with one connection per goroutine.
func (r *run) client(goroutines int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: r.addr, PoolSize: goroutines, ContextTimeoutEnabled: true,
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
	})
}

// clean removes the run's keys.
func (r *run) clean() {
	if r.admin == nil {
		return
	}
	remove(context.Background(), r.admin, r.prefix+"*")
}

// remove removes the keys that match the pattern.
func remove(ctx context.Context, client *redis.Client, pattern string) {
	var keys []string
	scan := client.Scan(ctx, 0, pattern, 1000).Iterator()
	for scan.Next(ctx) {
		if keys = append(keys, scan.Val()); len(keys) == 1000 {
			client.Unlink(ctx, keys...)
			keys = keys[:0]
		}
	}
	if len(keys) > 0 {
		client.Unlink(ctx, keys...)
	}
}

func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// median returns the median of the samples.
func median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	if len(s)%2 == 1 {
		return s[len(s)/2]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}
