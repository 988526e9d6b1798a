package api

import (
	"net/http"
	"testing"
)

func TestContentType(t *testing.T) {
	t.Parallel()
	const want = ": send application/json in UTF-8."
	for given, fault := range map[string]string{
		"application/json": "", "Application/JSON": "", "application/json;": "", "application/json ; ": "", " application/json": "",
		"application/json; charset=utf-8": "", "application/json; charset=utf8": "", "application/json;charset=UTF-8": "", `application/json; charset="UTF-8"`: "",
		`application/json; charset="utf-8`: "", "application/json; charset='utf-8'": "", "application/json; Charset = utf-8": "", "application/json; charset=": "", "application/json; charset": "",
		"application/json; charset=us-ascii": "", "application/json; charset=utf-8; charset=utf-8": "", "application/json; odata=verbose; version=1": "", "text/json": "",
		"application/vnd.shop.v1+json": "", "application/cloudevents+json; charset=utf_8": "",
		"":                                     "The body has no Content-Type" + want,
		"text/plain":                           `The body's Content-Type is "text/plain"` + want,
		"application/x-www-form-urlencoded":    `The body's Content-Type is "application/x-www-form-urlencoded"` + want,
		"application/x-ndjson":                 `The body's Content-Type is "application/x-ndjson"` + want,
		"text/plain; +json":                    `The body's Content-Type is "text/plain; +json"` + want,
		"text/plain+json":                      `The body's Content-Type is "text/plain+json"` + want,
		"application/json; charset=iso-8859-1": `The body's Content-Type is "application/json; charset=iso-8859-1"` + want,
		"application/json; charset=utf-16":     `The body's Content-Type is "application/json; charset=utf-16"` + want,
		"application/json; charset=utf-8; charset=latin1": `The body's Content-Type is "application/json; charset=utf-8; charset=latin1"` + want,
		"application/jsonp": `The body's Content-Type is "application/jsonp"` + want, "json": `The body's Content-Type is "json"` + want,
	} {
		h := http.Header{}
		if given != "" {
			h.Set("Content-Type", given)
		}
		if got := typeFault(h); got != fault {
			t.Errorf("%q: %q, want %q", given, got, fault)
		}
	}
	for encoding, fault := range map[string]string{"identity": "", "Identity": "", "gzip": `The body has the Content-Encoding "gzip": send it without one.`} {
		if got := typeFault(http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {encoding}}); got != fault {
			t.Errorf("%q: %q, want %q", encoding, got, fault)
		}
	}
}
