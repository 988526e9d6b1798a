package config

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

// wide is a text as PowerShell's > writes it.
func wide(text string) string {
	b := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return string(b)
}

func TestSecretFileTakesByteOrderMark(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]string{
		"\ufeffhush\r\n": "hush", "\ufeff": "the file is empty", "\ufeff\n": "the file is empty",
		wide("hush"): "the file is in UTF-16: save it as UTF-8",
	} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		got, err := ReadSecret(file)
		if err == nil && string(got) != want || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %q, %v", text, string(got), err)
		}
	}
}

func TestFileInUTF16NamesEncoding(t *testing.T) {
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
