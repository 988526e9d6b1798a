package redisconn

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
)

func TestAssessWarnsOfLosses(t *testing.T) {
	t.Parallel()
	well := "# Server\r\nredis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"
	for _, tt := range []struct {
		name  string
		info  string
		saves snapshots
		want  []string
	}{
		{"well", well, snapshots{known: true}, nil},
		{"old", strings.Replace(well, "7.0.15", "6.0.16", 1), snapshots{}, []string{"version 6.0.16 is below 6.2"}},
		{"just new enough", strings.Replace(well, "7.0.15", "6.2.0", 1), snapshots{}, nil},
		{"too old for a Cluster", strings.Replace(well, "7.0.15", "6.2.0", 1) + "cluster_enabled:1\r\n", snapshots{}, []string{"version 6.2.0 of a Cluster is below 7"}},
		{"strange version", strings.Replace(well, "7.0.15", "unstable", 1), snapshots{}, nil},
		{"all", "redis_version:5.0.7\r\nmaxmemory_policy:volatile-ttl\r\naof_enabled:0\r\n", snapshots{known: true},
			[]string{"version 5.0.7", "volatile-ttl", "nothing is persisted"}},
		{"nothing told", "", snapshots{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hold(t, assess(fields(tt.info), tt.saves), tt.want...)
		})
	}
}

func TestUnfitReportsWrongMode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		info string
		mode config.Mode
		want string
	}{
		{"role:master\r\ncluster_enabled:0\r\n", config.Single, ""},
		{"cluster_enabled:1\r\n", config.Cluster, ""},
		{"cluster_enabled:1\r\n", config.Single, "is a node of a Cluster"},
		{"role:slave\r\n", config.Single, "is a read-only replica"},
		{"role:slave\r\n", config.Sentinel, ""}, // it may be about to be promoted
	} {
		err := unfit(fields(tt.info), tt.mode)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q as %s: %v; want %q", tt.info, tt.mode, err, tt.want)
		}
	}
}

func TestMissingAcknowledgementsAreReported(t *testing.T) {
	t.Parallel()
	const replicas = "role:master\r\naof_enabled:1\r\nconnected_slaves:2\r\nslave0:ip=10.0.0.1,port=6379,state=online,offset=14,lag=0\r\nslave1:ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=0\r\n"
	for _, tt := range []struct {
		name         string
		info         string
		asked        int
		outage, loss bool
	}{
		{"none asked", "role:master\r\naof_enabled:0\r\n", 0, false, false},
		{"as many as asked", replicas, 1, false, false},
		{"one is not there yet", replicas, 2, true, false},
		{"none", "role:master\r\naof_enabled:1\r\n", 1, true, false},
		{"nothing is kept", strings.Replace(replicas, "aof_enabled:1", "aof_enabled:0", 1), 1, false, true},
		{"a replica", "role:slave\r\naof_enabled:1\r\n", 1, false, false},
	} {
		info := fields(tt.info)
		if outages, losses := missingReplicas(info, tt.asked), lostAcknowledgements(info, tt.asked); len(outages) > 0 != tt.outage || len(losses) > 0 != tt.loss {
			t.Errorf("%s: %q, %q", tt.name, outages, losses)
		}
	}
}

// clusterOutages does not warn about unknown settings, nor about a replica's.
func TestClusterOutagesAreReported(t *testing.T) {
	t.Parallel()
	const master = "role:master\r\nconnected_slaves:1\r\n"
	const follower = "slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=0\r\n"
	well := map[string]string{fullCoverage: "no", nodeTimeout: "5000"}
	for _, tt := range []struct {
		name, info string
		settings   map[string]string
		want       []string
	}{
		{"well", master + follower, well, nil},
		{"CONFIG refused", master + follower, nil, nil},
		{"no replica", "role:master\r\nconnected_slaves:0\r\n", well, []string{"has no replica"}},
		{"a replica that has not all yet", master + strings.Replace(follower, "online", "wait_bgsave", 1), well, []string{"has no replica"}},
		{"a replica", "role:slave\r\nslave_repl_offset:3\r\n", well, nil},
		{"slow", master + follower, map[string]string{fullCoverage: "no", nodeTimeout: "5001"}, []string{"cluster-node-timeout is 5001 ms: after a node's failure its notifications wait that long for a replica: set 5000 or less"}},
		{"all", "role:master\r\n", map[string]string{fullCoverage: "yes", nodeTimeout: "15000"}, []string{fullCoverage, nodeTimeout, "has no replica"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hold(t, clusterOutages(fields(tt.info), tt.settings, 0), tt.want...)
		})
	}
}

// A Redis without a snapshot reports the time of its start as the time of the last save.
func TestStartTimeIsNoSnapshot(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	for name, c := range map[string]struct {
		saved, uptime string
		want          int64
	}{
		"never":              {"999900", "100", 0},
		"never, a tick off":  {"999901", "100", 0},
		"since the start":    {"999950", "100", 999950},
		"before there is it": {"", "100", 0},
	} {
		var n Node
		n.readInfo(map[string]string{"rdb_last_save_time": c.saved, "uptime_in_seconds": c.uptime}, now)
		if got := n.LastSave; got.IsZero() != (c.want == 0) || c.want != 0 && got.Unix() != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	server := redistest.Start(t)
	nodes, err := ReadNodes(t.Context(), server.Client(t))
	if err != nil || len(nodes) != 1 || !nodes[0].LastSave.IsZero() || nodes[0].Version == "" {
		t.Errorf("a fresh one: %+v, %v", nodes, err)
	}
}
