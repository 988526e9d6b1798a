package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// A meter measures the CPU time of this process and of Redis for each lap.
type meter struct {
	redis       *redis.Client
	at          time.Time
	cpu, server time.Duration
}

func (t turn) newMeter(ctx context.Context) (*meter, error) {
	m := &meter{redis: t.client(1)}
	_, err := m.lap(ctx)
	return m, err
}

// lap returns the cost since the last lap.
func (m *meter) lap(ctx context.Context) (lap, error) {
	before := *m
	m.at = time.Now()
	var err error
	if m.cpu, err = cpuTime(); err != nil {
		return lap{}, err
	}
	if m.server, err = redisTime(ctx, m.redis); err != nil {
		return lap{}, err
	}
	return lap{m.at.Sub(before.at), m.cpu - before.cpu, m.server - before.server}, nil
}

// peakMB returns this process's peak of resident memory in MB; 0 on systems other than Linux.
func peakMB() float64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return round(kb/1024, 1)
		}
	}
	return 0
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// redisTime returns the CPU time that Redis has used.
func redisTime(ctx context.Context, client *redis.Client) (time.Duration, error) {
	info, err := client.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		d, err := time.ParseDuration(field(info, name) + "s")
		if err != nil {
			return 0, fmt.Errorf("redis: INFO cpu: %s: %w", name, err)
		}
		sum += d
	}
	return sum, nil
}
