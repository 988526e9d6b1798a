package config

import (
	"os"
	"path/filepath"
	"testing"
)

// Line ends at a secret's end are no part of it, wherever it comes from.
func TestSecretsEndBeforeTheirLineEnds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Secret{
		"hunter2": "hunter2", "hunter2\n": "hunter2", "hunter2\r\n": "hunter2", "hunter2\n\n": "hunter2", "hunter2\r": "hunter2",
		" hunter 2 \n": " hunter 2 ", "hunter\n2\n": "hunter\n2",
	} {
		file := filepath.Join(t.TempDir(), "secret")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if got, err := ReadSecret(file); err != nil || got != want {
			t.Errorf("the file %q: %q, %v", text, string(got), err)
		}
		var got Secret
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("the value %q: %q, %v", text, string(got), err)
		}
	}
}
