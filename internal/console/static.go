package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed static/*.css static/*.js static/*.svg
var files embed.FS

// An asset is a file of static/. Its URL contains a hash of its content, so that browsers may
// cache it for good.
type asset struct {
	url  string
	body []byte
}

// assets are keyed by file name, and byURL by the last part of the URL.
var assets, byURL = readAssets()

func readAssets() (byName, byURL map[string]asset) {
	entries, err := files.ReadDir("static")
	if err != nil {
		panic(err)
	}
	byName, byURL = map[string]asset{}, map[string]asset{}
	for _, e := range entries {
		body, err := files.ReadFile("static/" + e.Name())
		if err != nil {
			panic(err)
		}
		hash := sha256.Sum256(body)
		ending := path.Ext(e.Name())
		hashed := strings.TrimSuffix(e.Name(), ending) + "." + hex.EncodeToString(hash[:6]) + ending
		a := asset{Path + "static/" + hashed, body}
		byName[e.Name()], byURL[hashed] = a, a
	}
	return byName, byURL
}

// staticURL returns the URL of a file of static/.
func staticURL(name string) string { return assets[name].url }

// static serves a file.
func (c *Console) static(w http.ResponseWriter, v *visit) error {
	a, known := byURL[v.PathValue("file")]
	if !known {
		return errNotFound
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(a.url)))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.body) // the client may be gone
	return nil
}
