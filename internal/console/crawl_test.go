package console

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// A crawl is one browser's visit of all pages.
type crawl struct {
	*rig
	t     *testing.T
	who   string
	name  string          // of the corpus
	seen  map[string]bool // by address
	told  map[string]bool // reported faults, by route and format
	at    string          // the route's path
	links []string
	shown int // number of pages with the name in their text
}

// mostLinks bounds the links followed.
const mostLinks = 100

// all checks each page with the name in each parameter, follows the links, and posts each form
// with the name.
func (c *crawl) all() {
	for _, r := range routes {
		if r.handle == nil || r.action == nil {
			continue
		}
		for _, value := range []string{c.name, "buried", "waits-0-most", "tried", "ended", "torn", "alien"} {
			at := strings.ReplaceAll(parameter.ReplaceAllLiteralString(r.path, url.PathEscape(value)), "{$}", "")
			queries := []url.Values{{}, {"app": {"shop"}}, {"app": {"shop"}}}
			for _, name := range r.query {
				queries = append(queries, url.Values{name: {c.name}})
				if name != "app" && name != "done" && name != "n" && name != "cursor" {
					queries[2].Set(name, c.name)
				}
			}
			for _, query := range queries {
				c.look(r.method, at+"?"+query.Encode(), c.form(r))
			}
			if at == r.path {
				break
			}
		}
	}
	for i := 0; i < len(c.links) && i < mostLinks; i++ {
		c.look(http.MethodGet, c.links[i], nil)
	}
	if c.shown < 3 {
		c.t.Errorf("%s: %d of %d pages show the name", c.who, c.shown, len(c.seen))
	}
}

// form fills all free fields with the name.
func (c *crawl) form(r route) url.Values {
	form := url.Values{}
	for _, name := range r.form {
		form.Set(name, c.name)
	}
	for name, value := range map[string]string{"app": "shop", "ref": selectable(c.name, c.name, c.name), "for": "1h", "until": "", "rates": "7/1h", "min_gap": "", "exempt": "", "quiet_hours": "", "all": "", "do": "apply", "over": "0", "confirmed": "", "expect": ""} {
		if form.Has(name) {
			form.Set(name, value)
		}
	}
	return form
}

// fault reports a fault once for each route.
func (c *crawl) fault(what, format string, args ...any) {
	c.t.Helper()
	if key := c.at + format; !c.told[key] {
		c.told[key] = true
		c.t.Errorf(what+": "+format, args...)
	}
}

// look checks the page at the address, once.
func (c *crawl) look(method, at string, form url.Values) {
	c.t.Helper()
	to, err := url.Parse(at)
	if err != nil || c.seen[method+at] { // a browser would not send an invalid address either
		return
	}
	c.seen[method+at] = true
	req := httptest.NewRequest(method, to.String(), strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	browser := *c.rig // a copy, so that the rig keeps its cookie
	answer := browser.send(req)
	what := strings.ReplaceAll(fmt.Sprintf("%s %s %.200s", c.who, method, to), "%", "%%")
	c.at = strings.TrimPrefix(req.Pattern, method+" ")
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= http.StatusInternalServerError {
		c.fault(what, "%d: %s, %v", answer.StatusCode, text, err)
	}
	for name, values := range answer.Header {
		if strings.Contains(strings.ToLower(name), "hostile") || strings.ContainsFunc(strings.Join(values, ""), unseen) {
			c.fault(what, "the header has %s: %q", name, values)
		}
	}
	if to := answer.Header.Get("Location"); to != "" && !strings.HasPrefix(to, Path) {
		c.fault(what, "leads to %q", to)
	}
	if strings.Contains(html.UnescapeString(string(text)), visible(c.name)) {
		c.shown++
	}
	root, err := html.Parse(bytes.NewReader(text))
	must(c.t, err)
	for n := range root.Descendants() {
		switch n.Type {
		case html.CommentNode:
			c.fault(what, "a comment: %q", n.Data)
		case html.TextNode:
			c.text(what, n)
		case html.ElementNode:
			c.element(what, n)
		}
	}
}

// instant matches a time of day in a written instant.
var instant = regexp.MustCompile(`\b\d\d:\d\d:\d\d`)

func (c *crawl) text(what string, n *html.Node) {
	c.t.Helper()
	if strings.ContainsFunc(n.Data, unseen) {
		c.fault(what, "a text in %s: %q", n.Parent.Data, n.Data)
	}
	if instant.MatchString(n.Data) && !below(n, "time", "pre") && !slices.ContainsFunc(n.Parent.Attr, func(a html.Attribute) bool { return a.Key == "data-at" }) {
		c.fault(what, "an instant in %s, whose zone the reader cannot choose: %q", n.Parent.Data, n.Data)
	}
	if strings.ContainsRune(n.Data, 'ש') && !below(n, "bdi", "title", "option", "textarea", "pre", "desc", "text", "h1") {
		c.fault(what, "a name in %s changes the direction of what is around it: %q", n.Parent.Data, n.Data)
	}
}

// below reports whether the node is inside one of these elements.
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
	if n.Data == "hostile" || n.Data == "style" || n.Data == "script" && n.FirstChild != nil {
		c.fault(what, "an element that no template has: %s", n.Data)
	}
	for _, a := range n.Attr {
		key := a.Key
		if a.Namespace != "" {
			key = a.Namespace + ":" + a.Key
		}
		switch lower := strings.ToLower(key); {
		case lower == "hostile" || strings.HasPrefix(lower, "on") || lower == "style" || lower == "srcdoc":
			c.fault(what, "an attribute that no template has: %s of %s: %q", key, n.Data, a.Val)
		case key != "value" && strings.ContainsFunc(a.Val, unseen):
			c.fault(what, "%s of %s: %q", key, n.Data, a.Val)
		case slices.Contains([]string{"href", "src", "action", "formaction", "xlink:href"}, lower):
			u, err := url.Parse(a.Val)
			if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || a.Val != "" && !strings.HasPrefix(a.Val, Path) && !strings.HasPrefix(a.Val, "#") && !strings.HasPrefix(a.Val, "?") {
				c.fault(what, "%s leads to %q", n.Data, a.Val)
			} else if n.Data == "a" && strings.HasPrefix(a.Val, Path) {
				c.links = append(c.links, a.Val)
			}
		}
	}
}
