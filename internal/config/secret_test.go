package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A secret has no line ends at its end, wherever it comes from.
func TestSecretDropsTrailingLineEnds(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]string{
		"hunter2": "hunter2", "hunter2\r\n": "hunter2", "hunter2\n\n": "hunter2", "hunter2\r": "hunter2", " hunter 2 \n": " hunter 2 ", "hunter\n2\n": "hunter\n2",
		"\ufeffhush\r\n": "hush", "\ufeff\n": "the file is empty", "\n": "the file is empty",
		"\xff\xfeh\x00u\x00s\x00h\x00": "the file is in UTF-16: save it as UTF-8", strings.Repeat("x", maxSecretFile+1): "the file is larger than 65536 bytes",
	} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		got, err := ReadSecret(file)
		if err == nil && string(got) != want || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("the file %.40q: %q, %v", text, string(got), err)
		}
		if !strings.HasPrefix(text, "h") && !strings.HasPrefix(text, " ") {
			continue
		}
		if err := got.UnmarshalText([]byte(text)); err != nil || string(got) != want {
			t.Errorf("the value %q: %q, %v", text, string(got), err)
		}
	}
}
