package redisconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/config"
)

// eachNode calls f for each master of a Cluster concurrently, or for the one server.
func eachNode(ctx context.Context, c redis.UniversalClient, f func(context.Context, *redis.Client) error) error {
	if cluster, ok := pipeline.OfCluster(c); ok {
		return cluster.ForEachMaster(ctx, f)
	}
	if single, ok := pipeline.Unshared(c).(*redis.Client); ok {
		return f(ctx, single)
	}
	return fmt.Errorf("the type %T of a Redis client is not supported", c)
}

// within returns a context that ends after that part of ctx's remaining time.
func within(ctx context.Context, part float64) (context.Context, context.CancelFunc) {
	deadline, some := ctx.Deadline()
	if !some {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(float64(time.Until(deadline))*part))
}

// findings are the warnings about a Redis.
type findings struct {
	losses  []string // how the Redis may lose keys
	outages []string // how the Redis may stop, and how to avoid it
}

// inspect returns the nodes' warnings, or an error if no node can serve. One serving node of a
// Cluster is enough: the jobs on the other nodes wait.
func inspect(ctx context.Context, c redis.UniversalClient, cfg config.Redis) (findings, error) {
	var (
		mu       sync.Mutex
		all      findings
		failed   error
		answered bool
	)
	err := eachNode(ctx, c, func(ctx context.Context, node *redis.Client) error {
		found, err := inspectNode(ctx, node, cfg)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
			found.outages = []string{fmt.Sprintf("does not serve, and its notifications wait: %v", err)}
		}
		answered = answered || err == nil
		all.losses = append(all.losses, prefixed(node, found.losses)...)
		all.outages = append(all.outages, prefixed(node, found.outages)...)
		return nil
	})
	if err == nil && !answered {
		err = failed
	}
	slices.Sort(all.losses)
	slices.Sort(all.outages)
	return all, err
}

// prefixed prefixes each finding with the node's address.
func prefixed(node *redis.Client, found []string) []string {
	for i, f := range found {
		found[i] = fmt.Sprintf("redis %s: %s", node.Options().Addr, f)
	}
	return found
}

func inspectNode(ctx context.Context, node *redis.Client, cfg config.Redis) (found findings, err error) {
	if err := node.Ping(ctx).Err(); err != nil && !redisreply.Forbidden(err) {
		return found, err
	}
	if err := node.Exists(ctx, cfg.Prefix+":layout").Err(); err != nil && redisreply.Forbidden(err) { // no job is pulled without EXISTS
		return found, err
	}
	text, err := node.Info(ctx).Result()
	if redisreply.Answered(err) {
		found.losses = []string{"its version, eviction and persistence are unknown: the user may not call INFO"}
		return found, nil
	}
	if err != nil {
		return found, err
	}
	info := fields(text)
	if err := unfit(info, cfg.Address.Mode); err != nil {
		return found, err
	}
	// Managed services often refuse CONFIG. Only CONFIG tells whether snapshots are taken, and how
	// much of a Cluster stops with one node.
	settings, err := node.ConfigGet(ctx, "save").Result()
	if err != nil && !redisreply.Answered(err) {
		return found, err
	}
	save, known := settings["save"]
	found.losses = append(assess(info, snapshots{known: known, taken: save != ""}), lostAcknowledgements(info, cfg.Acknowledged)...)
	if cfg.Address.Mode != config.Cluster {
		found.outages = missingReplicas(info, cfg.Acknowledged)
		return found, nil
	}
	settings, err = node.ConfigGet(ctx, "cluster-*").Result() // before Redis 7 CONFIG GET takes one pattern only
	if err != nil && !redisreply.Answered(err) {
		return found, err
	}
	found.outages = clusterOutages(info, settings, cfg.Acknowledged)
	return found, nil
}

const (
	fullCoverage = "cluster-require-full-coverage"
	nodeTimeout  = "cluster-node-timeout"
	// maxElectionDelay is the longest acceptable time until a Cluster's replica starts an election.
	maxElectionDelay = 5 * time.Second
)

// clusterOutages returns how long, and for which keys, a Cluster stops when this master fails. info is
// the master's INFO; asked is the number of replicas that must acknowledge writes.
func clusterOutages(info, settings map[string]string, asked int) (outages []string) {
	if settings[fullCoverage] == "yes" {
		outages = append(outages, fullCoverage+" is yes, so that one master's failure stops the whole Cluster until a replica has replaced it: set no")
	}
	if ms, err := strconv.ParseInt(settings[nodeTimeout], 10, 64); err == nil && ms > maxElectionDelay.Milliseconds() {
		outages = append(outages, fmt.Sprintf("%s is %d ms: after a node's failure its notifications wait that long for a replica: set %d or less", nodeTimeout, ms, maxElectionDelay.Milliseconds()))
	}
	if info["role"] == "master" && replicas(info) == 0 && asked == 0 {
		outages = append(outages, "has no replica, so that its notifications wait until the node is back, and are lost with its disk: give it a replica")
	}
	return append(outages, missingReplicas(info, asked)...)
}

// unfit returns why a Redis with these fields of INFO cannot serve, or nil.
func unfit(info map[string]string, mode config.Mode) error {
	switch {
	case info["cluster_enabled"] == "1" && mode != config.Cluster:
		return errors.New("is a node of a Cluster: write address as a list")
	case info["role"] == "slave" && mode == config.Single:
		return errors.New("is a read-only replica: set address to the master, or to the Sentinels")
	}
	return nil
}

// snapshots describes whether Redis regularly saves its keys to a file; taken is valid if known is true.
type snapshots struct{ known, taken bool }

// assess returns warnings for a Redis with these fields of INFO: the ways in which it may lose keys, and
// a version that is too old.
func assess(info map[string]string, s snapshots) []string {
	var warnings []string
	switch v := info["redis_version"]; {
	case !atLeast(v, 6, 2):
		warnings = append(warnings, fmt.Sprintf("version %s is below 6.2: upgrade it", v))
	case info["cluster_enabled"] == "1" && !atLeast(v, 7, 0): // no sharded pub/sub
		warnings = append(warnings, fmt.Sprintf("version %s of a Cluster is below 7, and workers take up to a second to find due notifications: upgrade it", v))
	}
	if p := info["maxmemory_policy"]; p != "noeviction" && p != "" {
		warnings = append(warnings, fmt.Sprintf("maxmemory-policy is %s, which deletes jobs and limits when memory is short: set noeviction", p))
	}
	if info["aof_enabled"] == "0" && s.known && !s.taken {
		warnings = append(warnings, "nothing is persisted, and a restart loses everything: set appendonly yes")
	}
	return warnings
}

// atLeast compares the first two numbers of a version; an unreadable version counts as new.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return true
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	return errA != nil || errB != nil || a > major || a == major && b >= minor
}

// fields reads INFO's lines of the form name:value.
func fields(info string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			m[name] = value
		}
	}
	return m
}
