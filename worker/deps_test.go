package worker

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// layers maps each package below worker to the packages below worker that it may import.
var layers = map[string][]string{
	"clock":      {},
	"queue":      {"clock"},
	"pause":      {"queue"},
	"webhook":    {"clock"},
	"route":      {"clock", "pause", "queue"},
	"control":    {"clock", "pause", "queue", "route"},
	"reschedule": {"clock", "control"},
}

// Imports lead only downwards, and only worker/queue may import asynq.
func TestWorkerPackagesImportOnlyDownwards(t *testing.T) {
	t.Parallel()
	const self = "github.com/pushpace/pushpace/worker"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		name := strings.TrimPrefix(words[0], self+"/")
		may, known := layers[name]
		if !known && words[0] != self {
			t.Errorf("%s is in no layer", words[0])
		}
		seen++
		for _, path := range words[1:] {
			if path == "github.com/hibiken/asynq" && name != "queue" {
				t.Errorf("%s imports asynq", words[0])
			}
			below, ours := strings.CutPrefix(path, self)
			if ours && words[0] != self && !slices.Contains(may, strings.TrimPrefix(below, "/")) {
				t.Errorf("%s imports %s", words[0], path)
			}
		}
	}
	if seen != len(layers)+1 {
		t.Errorf("%d packages, %d are in the layers", seen, len(layers)+1)
	}
}
