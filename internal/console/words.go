package console

import (
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

// functions are the templates' functions.
var functions = template.FuncMap{
	"clock":      func(t time.Time) string { return t.UTC().Format(time.TimeOnly) },
	"group":      words.Grouped[int64],
	"minute":     func(t time.Time) string { return t.UTC().Format("15:04") },
	"figureLink": func(name string) string { return figureLinks[name] },
	"label":      func(name string) string { return labels[name] },
	"name":       words.Printable,
	"path":       pathOf,
	"pathTo":     func(list, id, app, user string) string { return refTo(list, push.Ref{ID: id, App: app, User: user}) },
	"pieces":     pieces,
	"ref":        selectable,
	"static":     staticURL,
	"utc":        func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") + " UTC" },
	"iso":        func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
}

// pathOf returns the address of a page below the console's, with each part escaped.
func pathOf(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return Path + strings.Join(parts, "/")
}

// A piece is a part of a sentence. Text that reads from right to left is marked Apart, so that it
// does not move its neighbours, such as a number, to its other side.
type piece struct {
	Text  string
	Apart bool
}

// fromRight matches text from a right-to-left letter to the last that follows it without another
// letter between them, with the other characters between.
var fromRight = regexp.MustCompile(`[\p{Hebrew}\p{Arabic}\p{Syriac}\p{Thaana}\p{Nko}\p{Adlam}](?:\PL*[\p{Hebrew}\p{Arabic}\p{Syriac}\p{Thaana}\p{Nko}\p{Adlam}])*`)

// pieces splits a sentence that contains names.
func pieces(sentence string) []piece {
	sentence = visible(sentence)
	var all []piece
	from := 0
	for _, at := range fromRight.FindAllStringIndex(sentence, -1) {
		all = append(all, piece{sentence[from:at[0]], false}, piece{sentence[at[0]:at[1]], true})
		from = at[1]
	}
	return append(all, piece{sentence[from:], false})
}
