package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers/apns"
)

const (
	clusterNotifications = 20_000
	// weakRate is the number of notifications that a worker's producer enqueues a second, for
	// weakTime, while masters, workers and load grow together.
	weakRate = 1000
	weakTime = 10 * time.Second
	// idleTime is how long an idle worker's commands are counted.
	idleTime = 10 * time.Second
)

// clusterBench measures the cost of a notification on a Redis Cluster that it starts: at full speed
// with one worker, on one server and on several masters; and while masters, workers and load grow
// together, where the cost should stay constant.
func clusterBench(ctx context.Context, r *run) (map[string]any, error) {
	standIn, err := startStandIns(ctx, 0, "")
	if err != nil {
		return nil, err
	}
	defer standIn.close()
	n := r.n
	if n == 0 {
		n = clusterNotifications
	}
	single, masters, weak := map[string]any{}, map[string]any{}, map[string]any{}
	for _, row := range []struct {
		in                       map[string]any
		key                      string
		masters, workers, shards int
		rate                     int
	}{
		{single, "1", 0, 1, 1, 0}, {single, "8", 0, 1, 8, 0},
		{masters, "1", 1, 1, 8, 0}, {masters, "2", 2, 1, 8, 0}, {masters, "3", 3, 1, 8, 0},
		{weak, "1", 1, 1, 2, weakRate}, {weak, "2", 2, 2, 4, weakRate}, {weak, "4", 4, 4, 8, weakRate},
	} {
		each, rounds := n, max(1, r.rounds/2+1)
		if row.rate > 0 {
			each, rounds = row.rate*int(weakTime/time.Second), 1
		}
		var all []map[string]float64
		for range rounds {
			figures, err := playOnCluster(ctx, row.masters, row.workers, row.shards, each, row.rate, standIn.APNs)
			if err != nil {
				return nil, fmt.Errorf("%d masters, %d workers, %d shards: %w", row.masters, row.workers, row.shards, err)
			}
			fmt.Fprintf(os.Stderr, "%d masters, %d workers, %d shards: %v\n", row.masters, row.workers, row.shards, figures)
			all = append(all, figures)
		}
		row.in[row.key] = medians(all)
	}
	idle, err := idleOnCluster(ctx, standIn.APNs)
	if err != nil {
		return nil, err
	}
	return map[string]any{"single": single, "masters": masters, "weak": weak, "idle_commands_per_s": idle}, nil
}

// medians returns the median of each figure.
func medians(all []map[string]float64) map[string]float64 {
	of := map[string]float64{}
	for name := range all[0] {
		var values []float64
		for _, figures := range all {
			values = append(values, figures[name])
		}
		slices.Sort(values)
		of[name] = values[len(values)/2]
	}
	return of
}

// A load is the work of one process, which enqueues and handles notifications.
type load struct {
	Hosts   []string
	Cluster bool
	Shards  int
	First   int // the number of the first notification
	N       int
	Rate    int // notifications enqueued a second; 0 enqueues all before the work begins
	Workers int
	Idle    time.Duration // with N = 0: how long the process idles after its start
	APNs    apns.Config
}

// loadCommand is the argument that starts this program as the process of a load.
const loadCommand = "load"

// carryLoad reads a load from standard input, and prints the lap of its work.
func carryLoad(ctx context.Context) error {
	var l load
	if err := json.NewDecoder(os.Stdin).Decode(&l); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	sender, err := apns.New(l.APNs)
	if err != nil {
		return err
	}
	defer sender.Close()
	s := stage{Redis: l.Hosts[0], Prefix: "pushpace", Shards: l.Shards}
	if l.Cluster {
		s.Hosts = l.Hosts
	}
	sys, err := openSystem(ctx, s, config.Limits{Default: dispatchPolicy}, sender, newTally(0))
	if err != nil {
		return err
	}
	defer sys.close()
	users := max(1, l.Workers*clusterNotifications/perUser)
	enqueue := func(ctx context.Context, i int) error {
		_, err := sys.producer.Enqueue(ctx, notification(l.First+i, users))
		return err
	}
	before, err := cpuTime()
	if err != nil {
		return err
	}
	if l.Rate == 0 {
		if err := each(ctx, enqueuers, l.N, enqueue); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	began := time.Now()
	if err := sys.worker.Start(ctx); err != nil {
		return err
	}
	if l.Rate > 0 {
		err = each(ctx, enqueuers, l.N, func(ctx context.Context, i int) error {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(l.Rate))))
			return enqueue(ctx, i)
		})
	}
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	time.Sleep(l.Idle)
	for {
		counts, err := sys.records.Counts(ctx)
		if err != nil {
			return err
		}
		if counts.Waiting() == 0 && counts.Accepted >= int64(l.N) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	after, err := cpuTime()
	if err != nil {
		return err
	}
	took := time.Since(began)
	if err := sys.worker.Stop(ctx); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(lap{Time: took, Worker: after - before})
}

// playOnCluster makes each worker send n notifications at the rate. masters is the size of the
// Cluster; 0 means a single Redis without Cluster. It returns the cost of each notification.
func playOnCluster(ctx context.Context, masters, workers, shards, n, rate int, to apns.Config) (map[string]float64, error) {
	c, err := startServers(ctx, masters)
	if err != nil {
		return nil, err
	}
	defer c.close()
	before, err := c.stats(ctx)
	if err != nil {
		return nil, err
	}
	laps, errs := make([]lap, workers), make([]error, workers)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			errs[i] = ask(ctx, loadCommand, load{Hosts: c.hosts, Cluster: masters > 0, Shards: shards, First: i * n, N: n, Rate: rate, Workers: workers, APNs: to}, &laps[i])
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	after, err := c.stats(ctx)
	if err != nil {
		return nil, err
	}
	var worker, longest time.Duration
	for _, l := range laps {
		worker, longest = worker+l.Worker, max(longest, l.Time)
	}
	var cpu, busiest, evalsha, exec, reads float64
	for i := range before {
		used := after[i]["cpu"] - before[i]["cpu"]
		cpu, busiest = cpu+used, max(busiest, used)
		evalsha += after[i]["evalsha"] - before[i]["evalsha"]
		exec += after[i]["exec"] - before[i]["exec"]
		reads += after[i]["reads"] - before[i]["reads"]
	}
	total := float64(n * workers)
	return map[string]float64{
		"redis_us": cpu * 1e6 / total, "worker_us": float64(worker.Microseconds()) / total, "rate": total / longest.Seconds(),
		"busiest_over_mean": busiest * float64(len(before)) / cpu, "evalsha_per_notification": evalsha / total, "commands_per_write": (evalsha + exec) / reads,
	}, nil
}

// idleOnCluster returns how many commands a second an idle worker makes on three masters with 8
// shards.
func idleOnCluster(ctx context.Context, to apns.Config) (float64, error) {
	c, err := startServers(ctx, 3)
	if err != nil {
		return 0, err
	}
	defer c.close()
	done := make(chan error, 1)
	go func() {
		var took lap
		done <- ask(ctx, loadCommand, load{Hosts: c.hosts, Cluster: true, Shards: 8, Idle: idleTime + 5*time.Second, APNs: to}, &took)
	}()
	time.Sleep(3 * time.Second)
	sent, errs := make([]int, len(c.hosts)), make([]error, len(c.hosts))
	var all sync.WaitGroup
	for i, host := range c.hosts {
		all.Go(func() { sent[i], errs[i] = commands(ctx, host, 0, idleTime) })
	}
	all.Wait()
	total := 0
	for i := range sent {
		if errs[i] != nil {
			return 0, errs[i]
		}
		total += sent[i]
	}
	return float64(total) / idleTime.Seconds(), <-done
}

// servers are Redis servers that the bench has started.
type servers struct {
	dir     string
	hosts   []string
	clients []*redis.Client
	ends    []func()
}

func (s *servers) close() {
	for _, c := range s.clients {
		_ = c.Close()
	}
	for _, end := range s.ends {
		end()
	}
	_ = os.RemoveAll(s.dir)
}

// startServers starts a Cluster with that many masters or, for 0, a single Redis.
func startServers(ctx context.Context, masters int) (s *servers, err error) {
	s = new(servers)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "pushpace-bench-"); err != nil {
		return s, err
	}
	for i := range max(1, masters) {
		if err := s.start(ctx, i, masters > 0); err != nil {
			return s, err
		}
	}
	if masters > 0 {
		err = s.join(ctx)
	}
	return s, err
}

func (s *servers) start(ctx context.Context, i int, cluster bool) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := free.Addr().(*net.TCPAddr).Port%20000 + 20000 // the bus has this port plus 10,000
	free.Close()
	args := []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--dbfilename", fmt.Sprint(i, ".rdb")}
	if cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-config-file", fmt.Sprint("nodes-", i, ".conf"))
	}
	server := exec.CommandContext(ctx, "redis-server", args...)
	if err := server.Start(); err != nil {
		return err
	}
	s.ends = append(s.ends, func() { _ = server.Process.Kill(); _ = server.Wait() })
	client := redis.NewClient(&redis.Options{Addr: fmt.Sprint("127.0.0.1:", port), MaxRetries: -1})
	s.clients, s.hosts = append(s.clients, client), append(s.hosts, client.Options().Addr)
	return until(ctx, func() error { return client.Ping(ctx).Err() })
}

// join makes the servers one Cluster, each with an equal part of the hash slots.
func (s *servers) join(ctx context.Context) error {
	n := len(s.clients)
	for i, c := range s.clients {
		err := c.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err()
		if err == nil {
			err = c.ClusterAddSlotsRange(ctx, i*16384/n, (i+1)*16384/n-1).Err()
		}
		if err == nil && i > 0 {
			host, port, _ := net.SplitHostPort(s.hosts[0])
			err = c.ClusterMeet(ctx, host, port).Err()
		}
		if err != nil {
			return err
		}
	}
	for _, c := range s.clients {
		err := until(ctx, func() error {
			info, err := c.ClusterInfo(ctx).Result()
			if err == nil && (!strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n))) {
				err = fmt.Errorf("the Cluster is not complete: %s", info)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func until(ctx context.Context, well func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := well()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// stats returns each server's CPU time in s, and the numbers of scripts and transactions that it
// has received and of reads from connections.
func (s *servers) stats(ctx context.Context) ([]map[string]float64, error) {
	all := make([]map[string]float64, len(s.clients))
	for i, c := range s.clients {
		text, err := c.Info(ctx, "cpu", "stats", "commandstats").Result()
		if err != nil {
			return nil, err
		}
		fields := map[string]float64{}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			value, _, _ = strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			fields[name], _ = strconv.ParseFloat(value, 64)
		}
		all[i] = map[string]float64{
			"cpu": fields["used_cpu_sys"] + fields["used_cpu_user"], "evalsha": fields["cmdstat_evalsha"], "exec": fields["cmdstat_exec"],
			"reads": fields["total_reads_processed"],
		}
	}
	return all, nil
}
