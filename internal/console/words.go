package console

import (
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/timeline"
)

// functions are those of the templates.
var functions = template.FuncMap{
	"group":  group[int64],
	"name":   timeline.Printable,
	"path":   pathOf,
	"static": staticURL,
	"utc":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") + " UTC" },
	"iso":    func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
}

// group writes a number with its thousands apart.
func group[N int | int64 | uint64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// pathOf is the address of a page below the console's, whose parts are names.
func pathOf(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return Path + strings.Join(parts, "/")
}
