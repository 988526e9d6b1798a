package push

import (
	"os/exec"
	"strings"
	"testing"
)

// A producer links no provider's SDK and no asynq. Of this module it links only internal/store and
// internal/base.
func TestPushLinksNoSDK(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	const self, store, ground = "github.com/pushpace/pushpace/push", "github.com/pushpace/pushpace/internal/store", "github.com/pushpace/pushpace/internal/base/"
	packages := strings.Fields(string(out))
	if packages[len(packages)-1] != self {
		t.Fatalf("go list ends with %q, want %q", packages[len(packages)-1], self)
	}
	for _, p := range packages {
		for _, foreign := range []string{
			"github.com/pushpace/pushpace/", "github.com/sideshow/apns2", "firebase.google.com/", "cloud.google.com/", "google.golang.org/api", "google.golang.org/grpc",
			"go.opentelemetry.io/", "github.com/hibiken/asynq",
		} {
			if p != self && p != store && !strings.HasPrefix(p, ground) && strings.HasPrefix(p, foreign) {
				t.Errorf("push links %s", p)
			}
		}
	}
}
