package config

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

// A secret has no line ends at its end, wherever it comes from.
func TestSecretDropsTrailingLineEnds(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]string{
		"hunter2": "hunter2", "hunter2\r\n": "hunter2", "hunter2\n\n": "hunter2", "hunter2\r": "hunter2", " hunter 2 \n": " hunter 2 ", "hunter\n2\n": "hunter\n2",
		"\ufeffhush\r\n": "hush", "\ufeff\n": "the file is empty", "\n": "the file is empty",
		wide("hush"): "the file is in UTF-16: save it as UTF-8", strings.Repeat("x", maxSecretFile+1): "the file is larger than 65536 bytes",
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

// wide returns a text as PowerShell's > writes it.
func wide(text string) string {
	b := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return string(b)
}

func TestErrorForUTF16FileNamesEncoding(t *testing.T) {
	t.Parallel()
	text := "redis: {address: embedded, password: " + canary + "}\n"
	_, err := Parse("config.yaml", []byte(wide(text)), nil)
	if err == nil || !strings.HasPrefix(err.Error(), "config.yaml: is in UTF-16: save it as UTF-8") || strings.Contains(err.Error(), canary) {
		t.Error(err)
	}
	if _, err := Parse("config.yaml", []byte("\ufeff"+strings.ReplaceAll("redis:\n  address: embedded\n", "\n", "\r\n")), nil); err != nil {
		t.Error(err)
	}
}
