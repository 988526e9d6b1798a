package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/base/golden"
)

// canary is the secret in the files of testdata/bad.
const canary = "canary-4f1c"

// TestBadFiles loads each testdata/bad/*.yaml; the *.want file of the same name
// has the whole error.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			_, err := Load(file, nil)
			var faults Faults
			if !errors.As(err, &faults) {
				t.Fatalf("Load: %v; want Faults", err)
			}
			// Only the separator of paths depends on the system.
			got := filepath.ToSlash(err.Error()) + "\n"
			if strings.Contains(got, canary) {
				t.Errorf("the error shows a secret:\n%s", got)
			}
			for _, f := range faults {
				if !strings.HasPrefix(f.Error(), file) {
					t.Errorf("a fault does not name the file: %s", f.Error())
				}
			}
			golden.Match(t, strings.TrimSuffix(file, ".yaml")+".want", got)
		})
	}
}
