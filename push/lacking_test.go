package push

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// lacking returns a Cluster client's missing settings in Go's notation.
func TestLackingNamesMissingSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options redis.ClusterOptions
		want    []string
	}{
		"as it comes": {redis.ClusterOptions{}, []string{"ContextTimeoutEnabled: true", "ClusterStateReloadInterval: time.Second"}},
		"whole":       {redis.ClusterOptions{ContextTimeoutEnabled: true, ClusterStateReloadInterval: time.Second}, nil},
	} {
		client := redis.NewClusterClient(&c.options)
		if got := lacking(client.Options()); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
		_ = client.Close()
	}
}
