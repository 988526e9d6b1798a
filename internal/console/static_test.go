package console

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// maxAssets bounds the total size of all files, in bytes.
const maxAssets = 100_000

// URLs of files contain a hash of their content, and browsers may cache them for good.
func TestStaticURLHasHashOfContent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	recorder := httptest.NewRecorder()
	r.console.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, staticURL("console.css"), nil))
	if got := recorder.Header(); recorder.Code != http.StatusOK || !strings.Contains(got.Get("Cache-Control"), "immutable") || got.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("%d %v", recorder.Code, got)
	}
	sum := 0
	for _, a := range assets {
		sum += len(a.body)
	}
	if sum > maxAssets {
		t.Errorf("the files have %d bytes together, at most %d", sum, maxAssets)
	}
}

// Third-party files match vendor.json, and have their licences beside them.
func TestVendoredFilesMatchTheirList(t *testing.T) {
	t.Parallel()
	for list, folder := range map[string]string{"static/vendor.json": "static/", "testdata/axe/vendor.json": "testdata/axe/"} {
		text, err := os.ReadFile(list)
		must(t, err)
		var vendored []struct{ Name, Version, File, SHA256, Licence, Tarball, Integrity string }
		if err := json.Unmarshal(text, &vendored); err != nil || len(vendored) == 0 {
			t.Fatalf("%s: %v", list, err)
		}
		for _, v := range vendored {
			body, err := os.ReadFile(folder + v.File)
			if hash := sha256.Sum256(body); err != nil || hex.EncodeToString(hash[:]) != v.SHA256 {
				t.Errorf("%s of %s %s: %x, %v", v.File, v.Name, v.Version, hash, err)
			}
			if _, err := os.Stat(folder + v.Licence); err != nil || v.Licence == "" {
				t.Error(err)
			}
			if !strings.Contains(v.Tarball, v.Version) || !strings.HasPrefix(v.Integrity, "sha512-") {
				t.Errorf("%s names no version: %+v", list, v)
			}
		}
	}
}
