package console

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// A crawl is one browser's way through the console.
type crawl struct {
	*rig
	t     *testing.T
	who   string
	name  string // of the corpus
	known vocabulary
	log   *logged
	shown map[string]bool // by the routes' paths
	seen  map[string]bool // by address
	told  map[string]bool // by what is wrong, and the route
	at    string          // the route's path
	path  string          // of the page
	next  []string
	forms []form
}

// A form is what a page has a browser send.
type form struct {
	to     string
	fields url.Values
}

// mostPages bounds a crawl.
const mostPages = 100

func (c *crawl) all() {
	values := []string{c.name, "buried", "waits-0-most", "tried", "ended", "torn", "alien", "none"}
	for _, r := range routes {
		if r.method != http.MethodGet || r.handle == nil || r.path == "/console" {
			continue
		}
		for _, value := range values {
			at := strings.ReplaceAll(parameter.ReplaceAllLiteralString(r.path, url.PathEscape(value)), "{$}", "")
			c.look(at)
			all := url.Values{"app": {"shop"}}
			for _, name := range r.query {
				c.look(at + "?" + url.Values{name: {c.name}}.Encode())
				if name != "app" && name != "done" && name != "n" && name != "cursor" {
					all.Set(name, c.name)
				}
			}
			if slices.Contains(r.query, "app") {
				c.look(at + "?" + url.Values{"app": {"shop"}}.Encode())
				c.look(at + "?" + all.Encode())
			}
			if at == r.path {
				break
			}
		}
	}
	c.goOn()
	for range 2 { // the forms, and then what they ask to be confirmed
		forms := c.forms
		c.forms = nil
		for _, f := range forms {
			c.submit(f)
		}
	}
	c.goOn()
}

// goOn looks where links lead.
func (c *crawl) goOn() {
	c.t.Helper()
	for i := 0; i < len(c.next) && i < mostPages; i++ {
		c.look(c.next[i])
	}
	c.next = nil
}

// fault tells of what is wrong with a route's pages, once.
func (c *crawl) fault(what, format string, args ...any) {
	c.t.Helper()
	if key := c.at + format; !c.told[key] {
		c.told[key] = true
		c.t.Errorf(what+": "+format, args...)
	}
}

// look reads the page at the address, once.
func (c *crawl) look(at string) {
	c.t.Helper()
	if c.seen[at] {
		return
	}
	c.seen[at] = true
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, at, nil)
	if err != nil { // a browser would not send it either
		return
	}
	c.answer(httptest.NewRequest(req.Method, req.URL.String(), nil))
}

// submit sends the form as a browser does.
func (c *crawl) submit(f form) {
	c.t.Helper()
	req := httptest.NewRequest(http.MethodPost, f.to, strings.NewReader(f.fields.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	c.answer(req)
}

// lines are those that the log has, without counts, which come when their time is over, and
// without the parts of an overview that a slow machine reads too late.
func (c *crawl) lines() int {
	log := c.log.String()
	return strings.Count(log, "\n") - strings.Count(log, " again=") - strings.Count(log, "a part of the overview could not be read")
}

// answer has the request answered, and judges the page.
func (c *crawl) answer(req *http.Request) {
	c.t.Helper()
	what := strings.ReplaceAll(fmt.Sprintf("%s %s %.200s", c.who, req.Method, req.URL), "%", "%%")
	c.path = req.URL.EscapedPath()
	told := c.lines()
	browser := *c.rig // whose cookie stays
	answer := browser.send(req)
	c.at = strings.TrimPrefix(req.Pattern, "GET ")
	if lines := c.lines() - told; lines > 1 {
		c.fault(what, "%d, and %d lines in the log:\n%s", answer.StatusCode, lines, c.log.String()[len(c.log.String())-1000:])
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	for name, values := range answer.Header {
		if strings.Contains(strings.ToLower(name), "hostile") || strings.ContainsFunc(strings.Join(values, ""), unseen) {
			c.fault(what, "the header has %s: %q", name, values)
		}
	}
	if to := answer.Header.Get("Location"); to != "" {
		if u, err := url.Parse(to); err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(to, Path) {
			c.fault(what, "leads to %q", to)
		} else if !strings.HasPrefix(to, signInPath) {
			c.next = append(c.next, to)
		}
		return
	}
	if answer.StatusCode >= 500 {
		c.fault(what, "%d: %s", answer.StatusCode, text[bytes.Index(text, []byte("<h1>")):])
	}
	root, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	if z := bytes.IndexFunc(text, unseen); z >= 0 && !bytes.Contains(text, []byte(`value="`)) {
		c.fault(what, "%q is in the page", text[max(0, z-40):min(len(text), z+40)])
	}
	var read strings.Builder
	for n := range root.Descendants() {
		if c.judge(what, n); n.Type == html.TextNode && n.Parent.Data != "option" && below(n, "main") && !below(n, "h1") {
			read.WriteString(n.Data)
		}
	}
	quoted := strconv.Quote(c.name)
	for _, form := range []string{visible(c.name), quoted[1 : len(quoted)-1]} {
		if answer.StatusCode == http.StatusOK && strings.Contains(read.String(), form) {
			c.shown[c.at] = true
		}
	}
}

// followed are the attributes that browsers follow, or load.
var followed = map[string]bool{"href": true, "src": true, "action": true, "formaction": true, "xlink:href": true}

// instant is a time of day, as an instant that is written out has one.
var instant = regexp.MustCompile(`\b\d\d:\d\d:\d\d`)

func (c *crawl) judge(what string, n *html.Node) {
	c.t.Helper()
	switch n.Type {
	case html.CommentNode:
		c.fault(what, "a comment: %q", n.Data)
	case html.TextNode:
		if strings.ContainsFunc(n.Data, unseen) {
			c.fault(what, "a text in %s: %q", n.Parent.Data, n.Data)
		}
		if instant.MatchString(n.Data) && !below(n, "time", "pre") && !slices.ContainsFunc(n.Parent.Attr, func(a html.Attribute) bool { return a.Key == "data-at" }) {
			c.fault(what, "an instant in %s, whose zone the reader cannot choose: %q", n.Parent.Data, n.Data)
		}
		if strings.ContainsRune(n.Data, 'ש') && !isolated(n) {
			c.fault(what, "a name in %s changes the direction of what is around it: %q", n.Parent.Data, n.Data)
		}
	case html.ElementNode:
		c.element(what, n)
	}
}

// isolated reports whether a text does not mix with others': it is in a bdi, or in what
// a browser shows by itself, with no more than a word before it.
func isolated(n *html.Node) bool {
	return below(n, "bdi", "title", "option", "textarea", "pre", "desc", "text", "h1")
}

// below reports whether the node is in one of these elements.
func below(n *html.Node, elements ...string) bool {
	for n := range n.Ancestors() {
		if slices.Contains(elements, n.Data) {
			return true
		}
	}
	return false
}

func (c *crawl) element(what string, n *html.Node) {
	c.t.Helper()
	may, is := c.known[n.Data]
	if !is && n.Data != "tbody" {
		c.fault(what, "an element that no template has: %s", n.Data)
	}
	if n.Data == "script" && (n.FirstChild != nil || !strings.HasPrefix(attribute(n, "src"), Path+"static/")) || n.Data == "style" {
		c.fault(what, "a script or a style of its own")
	}
	for _, a := range n.Attr {
		key := a.Key
		if a.Namespace != "" {
			key = a.Namespace + ":" + a.Key
		}
		lower := strings.ToLower(key)
		switch {
		case !may[lower] || strings.HasPrefix(lower, "on") || lower == "style" || lower == "srcdoc":
			c.fault(what, "an attribute that no template has: %s of %s: %q", key, n.Data, a.Val)
		case key != "value" && strings.ContainsFunc(a.Val, unseen):
			c.fault(what, "%s of %s: %q", key, n.Data, a.Val)
		}
		if followed[lower] {
			c.follow(what, n, a.Val)
		}
	}
	if n.Data == "form" && attribute(n, "method") == "post" && attribute(n, "action") != signOutPath {
		f := c.read(n)
		if key := "POST " + f.to + "?" + f.fields.Encode(); !c.seen[key] {
			c.seen[key] = true
			c.forms = append(c.forms, f)
		}
	}
}

// follow judges an address, and goes there later.
func (c *crawl) follow(what string, n *html.Node, to string) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || to != "" && !strings.HasPrefix(to, Path) && !strings.HasPrefix(to, "#") && !strings.HasPrefix(to, "?") {
		c.fault(what, "%s leads to %q", n.Data, to)
		return
	}
	if n.Data == "a" && strings.HasPrefix(to, Path) {
		u.Fragment = ""
		c.next = append(c.next, u.String())
	}
}

// wellFormed is what stands in fields that take no names, so that the others are taken.
var wellFormed = url.Values{"for": {"1h"}, "until": {""}, "min_gap": {""}, "rates": {"7/1h"}, "exempt": {""}}

// read returns what a browser would send of the form, with the name in all that can be
// written into.
func (c *crawl) read(n *html.Node) form {
	f := form{cmp.Or(attribute(n, "action"), c.path), url.Values{}}
	for field := range n.Descendants() {
		name := attribute(field, "name")
		if field.Type != html.ElementNode || name == "" {
			continue
		}
		switch kind := attribute(field, "type"); {
		case field.Data == "input" && (kind == "hidden" || kind == "checkbox"):
			f.fields.Add(name, attribute(field, "value"))
		case field.Data == "button", field.Data == "input" && (kind == "radio" || kind == "number"):
			f.fields.Set(name, attribute(field, "value"))
		case wellFormed[name] != nil:
			f.fields[name] = wellFormed[name]
		case field.Data == "input", field.Data == "textarea":
			f.fields.Set(name, c.name)
		case field.Data == "select":
			f.fields.Set(name, c.name)
		}
	}
	return f
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
