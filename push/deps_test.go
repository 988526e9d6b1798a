package push

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A producer links no provider's SDK, and of this module nothing that needs more than
// go-redis.
func TestLinksNoSDK(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	const self = "github.com/pushpace/pushpace/push"
	ours := []string{self, "github.com/pushpace/pushpace/internal/pipeline", "github.com/pushpace/pushpace/internal/near", "github.com/pushpace/pushpace/internal/redisreply", "github.com/pushpace/pushpace/internal/faults", "github.com/pushpace/pushpace/internal/duration", "github.com/pushpace/pushpace/internal/base/asynqwire", "github.com/pushpace/pushpace/internal/base/ledger", "github.com/pushpace/pushpace/internal/base/strictjson"}
	packages := strings.Fields(string(out))
	if packages[len(packages)-1] != self {
		t.Fatalf("go list ends with %q, want %q", packages[len(packages)-1], self)
	}
	for _, p := range packages {
		for _, foreign := range []string{
			"github.com/pushpace/pushpace/", "github.com/sideshow/apns2", "firebase.google.com/", "cloud.google.com/", "google.golang.org/api", "google.golang.org/grpc",
			"go.opentelemetry.io/",
		} {
			if !slices.Contains(ours, p) && strings.HasPrefix(p, foreign) {
				t.Errorf("push links %s", p)
			}
		}
	}
}
