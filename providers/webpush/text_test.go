package webpush

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeyFileTakesByteOrderMarkAndCRLF(t *testing.T) {
	t.Parallel()
	key, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	for name, tt := range map[string]struct{ text, want string }{
		"PEM":    {"\ufeff" + strings.ReplaceAll(string(text), "\n", "\r\n"), ""},
		"scalar": {"\ufeffyfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw\r\n", ""},
		"UTF-16": {"\xff\xfey\x00f\x00", file + ": is in UTF-16: save it as UTF-8"},
	} {
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadKey(file)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
