package config

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
)

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
