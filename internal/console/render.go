package console

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
)

// A page is what a visit is answered with: a template of templates/ with its data, or
// the address to go to.
type page struct {
	name  string // of the template
	title string
	data  any
	// live has it kept up to date while it is open.
	live   bool
	status int // 0 is 200
	// to is where to go instead; all else but the cookie is empty then.
	to string
	// cookie is set with the answer.
	cookie *http.Cookie
}

// A frame is what layout.html shows around a page.
type frame struct {
	Title string
	Page  string
	Live  bool
	// Who is "" for somebody who is not signed in.
	Who      string
	Operator bool
	// Apps are those that the reader sees, "" for all.
	Apps string
	// Tokens reports whether one signs in.
	Tokens bool
	Nav    []place
	Notice string
	// Version is the program's, for a reader who is signed in.
	Version string
	Now     time.Time
	Data    any
}

//go:embed templates
var templates embed.FS

// pages are the templates by name, each with the layout around it.
var pages = parsePages()

func parsePages() map[string]*template.Template {
	entries, err := templates.ReadDir("templates")
	if err != nil {
		panic(err)
	}
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	all := map[string]*template.Template{}
	for _, e := range entries {
		if name := e.Name(); name != "layout.html" && name != "parts.html" {
			all[name[:len(name)-len(".html")]] = template.Must(template.Must(layout.Clone()).ParseFS(templates, "templates/"+name))
		}
	}
	return all
}

// render answers with the page. Nothing is answered before all of it is made.
func (c *Console) render(w http.ResponseWriter, v *visit, p page) error {
	var b bytes.Buffer
	f := frame{Title: p.title, Page: p.name, Live: p.live, Tokens: !c.o.Tokens.None(), Nav: navigation(v.URL.Path), Notice: notice(v.query), Now: time.Now().UTC(), Data: p.data}
	if v.as != nil && operate.Look.Allows(v.who) {
		f.Who, f.Operator, f.Apps = v.who.Name, v.who.Role == config.Operator, strings.Join(v.as.Only(), ", ")
		f.Version = c.o.Version
	}
	if err := pages[p.name].Execute(&b, f); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if p.status != 0 {
		w.WriteHeader(p.status)
	}
	_, _ = w.Write(b.Bytes()) // to a client that is gone perhaps
	return nil
}
