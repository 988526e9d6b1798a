package shard

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// Whoever comes first says how many shards there are, and all others go by it.
func TestLayout(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: redistest.Miniredis(t).Addr()})
	defer client.Close()
	for _, c := range []struct {
		prefix     string
		wish, want int
	}{
		{"none", 0, 1}, {"none", 8, 1}, {"some", 8, 8}, {"some", 0, 8}, {"some", 16, 8}, {"none", 0, 1},
	} {
		l := NewLayout(client, c.prefix, c.wish)
		for range 2 {
			if shards, err := l.Shards(t.Context()); err != nil || len(shards) != c.want {
				t.Errorf("%+v: %d shards, %v", c, len(shards), err)
			}
		}
	}
	for _, text := range []string{"", "three", "3", "512", "-8"} {
		client.HSet(t.Context(), "odd:layout", "shards", text)
		if shards, err := NewLayout(client, "odd", 0).Shards(t.Context()); err == nil || !strings.Contains(err.Error(), "odd:layout says") {
			t.Errorf("%q: %d shards, %v", text, len(shards), err)
		}
	}
}

// A Cluster that has lost its layout, or whose master with it is away, knows it by a copy.
func TestLayoutIsCopied(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, redistest.Args("--cluster-require-full-coverage", "no"))
	options := &redis.ClusterOptions{DialerRetries: 1, MaxRedirects: 1}
	for _, node := range nodes {
		options.Addrs = append(options.Addrs, node.Addr())
	}
	client := redis.NewClusterClient(options)
	defer client.Close()
	first := NewLayout(client, "lost", 16)
	known := func(what string, wish int) {
		t.Helper()
		if shards, err := NewLayout(client, "lost", wish).Shards(t.Context()); err != nil || len(shards) != 16 {
			t.Errorf("%s: %d shards, %v", what, len(shards), err)
		}
	}
	if _, err := first.Shards(t.Context()); err != nil {
		t.Fatal(err)
	}
	client.Del(t.Context(), Key("lost"))
	known("lost", 4)
	if err := first.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := first.read(t.Context(), Key("lost")); err != nil || n != 16 {
		t.Errorf("kept: %d, %v", n, err)
	}
	redistest.NodeOf(t, nodes, Key("lost")).Kill(t)
	known("away", 4)
}
