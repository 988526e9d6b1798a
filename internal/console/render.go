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

// A page is the answer to a visit: a template of templates/ with its data, or a redirect.
type page struct {
	name  string // of the template
	title string
	data  any
	// live makes the script update the open page.
	live   bool
	status int // 0 is 200
	// to is the address of a redirect; only cookie may be set with it.
	to string
	// cookie is sent with the answer; nil for none.
	cookie *http.Cookie
}

// A frame is the data of layout.html.
type frame struct {
	Title string
	Page  string
	Live  bool
	// Who is the name of the visitor's API token; "" without a sign-in.
	Who      string
	Operator bool
	// Apps are the apps that the visitor may read; "" for all.
	Apps string
	// Tokens reports whether the console requires a sign-in.
	Tokens bool
	Nav    []place
	Notice string
	// Version is the program's version; "" without a sign-in.
	Version string
	Now     time.Time
	Data    any
}

//go:embed templates
var templates embed.FS

// pages are the templates by name, each combined with the layout.
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

// render sends the page. It sends nothing if the template fails.
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
	_, _ = w.Write(b.Bytes()) // the client may be gone
	return nil
}
