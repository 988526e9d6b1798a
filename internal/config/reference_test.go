package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/golden"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/fcm/fcmconfig"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/throttle/quiet"
)

const referencePage = "../../docs/configuration.md"

// shared are the sections that occur in several places and have their own table.
var shared = map[reflect.Type]string{
	reflect.TypeFor[throttle.Policy](): "policy",
	reflect.TypeFor[Quota]():           "quota",
	reflect.TypeFor[Webhook]():         "webhook",
}

// TestReferenceIsCurrent compares the tables of docs/configuration.md with the structs. A comment
// <!-- keys: NAMES --> selects the keys below top-level keys or of a shared section.
func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(referencePage)
	must(t, err)
	written := map[string]bool{}
	d := docs{t: t, comments: map[string]map[string]string{}}
	page := regexp.MustCompile(`(?s)(<!-- keys: ([a-z ]+) -->\n).*?(\n<!-- end of keys -->)`).ReplaceAllStringFunc(string(text), func(part string) string {
		head, _, _ := strings.Cut(part, "\n")
		names := strings.Fields(strings.TrimSuffix(strings.TrimPrefix(head, "<!-- keys: "), " -->"))
		for _, name := range names {
			written[name] = true
		}
		return head + "\n" + d.table(names) + "\n<!-- end of keys -->"
	})
	for _, top := range slices.Concat(fieldTags(reflect.ValueOf(Config{})), []string{"policy", "quota", "webhook"}) {
		if !written[top] {
			t.Errorf("the page has no table of %s", top)
		}
	}
	golden.Match(t, referencePage, page)
}

// docs writes tables of keys.
type docs struct {
	t        *testing.T
	comments map[string]map[string]string // by package and TYPE.FIELD
}

// table returns the table of the keys below top-level keys, or of one shared section.
func (d *docs) table(names []string) string {
	for section, name := range shared {
		if names[0] == name {
			rows := []string{"| Key | Type | Default | Meaning |", "|---|---|---|---|"}
			v := reflect.New(section).Elem()
			setDefaults(v)
			keys(key{value: v}, func(k key) bool {
				rows = append(rows, row("`"+k.path+"`", kindOf(k), defaultOf(k), d.meaning(k)))
				return false
			})
			return strings.Join(rows, "\n")
		}
	}
	rows := []string{"| Key and variable | Type | Default | Reload | Meaning |", "|---|---|---|---|---|"}
	var all Config
	all.SetDefaults()
	keys(key{value: reflect.ValueOf(&all).Elem(), reload: "restart"}, func(k key) bool {
		if top, _, _ := strings.Cut(k.path, "."); !slices.Contains(names, top) {
			return false
		}
		if _, common := shared[k.owner]; common { // the section's own table has the key
			return false
		}
		kind := kindOf(k)
		if kind == "" { // a section
			return true
		}
		name := "`" + k.path + "`"
		_, named := k.value.Addr().Interface().(named)
		if variable := variableOf(k.path); variable != "" && (named || !isSection(k.value)) {
			name += "<br>`" + variable + "`"
		}
		rows = append(rows, row(name, kind, defaultOf(k), k.reload, d.meaning(k)))
		return k.value.Type() != reflect.TypeFor[Redis]()
	})
	return strings.Join(rows, "\n")
}

func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |" }

// linkOf returns a link to the table of a shared section; "" for any other key.
func linkOf(k key) string {
	t := k.value.Type()
	for section, name := range shared {
		embeds := func(name string) bool {
			f, found := t.FieldByName(name)
			return found && f.Anonymous && f.Type == section
		}
		if t == section || t.Kind() == reflect.Struct && embeds(section.Name()) {
			return "[" + name + "](#a-" + name + ")"
		}
	}
	return ""
}

// kindOf returns the type of a key with its range; "" for a section with keys of its own.
func kindOf(k key) string {
	t := k.value.Type()
	kind, link := k.Tag.Get("kind"), linkOf(k)
	switch {
	case kind != "":
	case k.path == "limits.redis":
		return "keys of `redis`"
	case t == reflect.TypeFor[AppQuota]():
		return "name or " + link
	case link != "":
		return link
	case isSection(k.value):
		return ""
	case k.Tag.Get("oneof") != "":
		return "`" + strings.Join(strings.Fields(k.Tag.Get("oneof")), "`, `") + "`"
	case t == reflect.TypeFor[Address](), t == reflect.TypeFor[Listen]():
		kind = "address"
	case t == reflect.TypeFor[throttle.Rate]():
		kind = "rate"
	case t == reflect.TypeFor[time.Duration]():
		kind = "duration"
	case t.Kind() == reflect.Bool:
		kind = "boolean"
	case k.value.CanInt() || k.value.CanFloat():
		kind = "number"
	case t.Kind() == reflect.Slice:
		kind = "list"
	case strings.HasSuffix(tagOf(k.StructField), "_file"):
		kind = "file"
	default:
		kind = "text"
	}
	for i, part := range strings.Split(k.Tag.Get("range"), ",") {
		if part != "" {
			kind += []string{", ", " or "}[min(i, 1)] + strings.Replace(part, "..", "–", 1)
		}
	}
	return kind
}

func defaultOf(k key) string {
	value := shown(k.value, true)
	if text, given := k.Tag.Lookup("default"); given {
		return "`" + text + "`"
	}
	if list, ok := value.([]any); ok {
		items := make([]string, len(list))
		for i, item := range list {
			items[i] = "`" + flow(item) + "`"
		}
		return strings.Join(items, ", ")
	}
	return "–"
}

// meaning returns the first paragraph of the field's comment.
func (d *docs) meaning(k key) string {
	text := d.of(k.owner)[k.owner.Name()+"."+k.Name]
	if text == "" {
		d.t.Errorf("%s has no comment", k.path)
	}
	text, _, _ = strings.Cut(text, "\n\n")
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", " ")
	text = regexp.MustCompile(`docs/([a-z]+\.md)(#[a-z-]+)?`).ReplaceAllString(text, "[$1]($1$2)")
	return strings.TrimSuffix(strings.ReplaceAll(text, "|", `\|`), ".")
}

// of returns the comments of the fields in a type's package.
func (d *docs) of(t reflect.Type) map[string]string {
	folder := filepath.Join("../..", strings.TrimPrefix(t.PkgPath(), "github.com/pushpace/pushpace/"))
	if known := d.comments[folder]; known != nil {
		return known
	}
	comments := map[string]string{}
	d.comments[folder] = comments
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	must(d.t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		must(d.t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						comments[spec.Name.Name+"."+name.Name] = f.Doc.Text()
					}
				}
			}
			return false
		})
	}
	return comments
}

func shownPaths(above string, s Section) (all []string) {
	for _, e := range s {
		path := join(above, e.Key)
		if below, ok := e.Value.(Section); ok {
			all = append(all, shownPaths(path, below)...)
		}
		all = append(all, path)
	}
	return all
}

// config.yaml names every key, if only in a comment.
func TestShippedFileNamesEveryKey(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(shipped)
	must(t, err)
	all := allKeys()
	for _, k := range all {
		if !regexp.MustCompile(`\b` + tagOf(k.StructField) + `\b`).Match(text) {
			t.Errorf("config.yaml does not name %s", k.path)
		}
	}
	if len(all) < 100 {
		t.Errorf("only %d keys", len(all))
	}
}

// The words in the tags are the constants that other packages use.
func TestTagsMatchConstants(t *testing.T) {
	t.Parallel()
	var c Config
	c.SetDefaults()
	tags := map[string]reflect.StructTag{}
	for _, k := range allKeys() {
		tags[k.path] = k.Tag
	}
	for _, one := range []struct {
		key, tag string
		want     any
	}{
		{"worker.dead_letters", "default", store.DefaultDeadLetters},
		{"limits.max_booked", "default", throttle.MaxEntries},
		{"limits.max_booked", "range", fmt.Sprint("10..", throttle.MaxEntries)},
		{"limits.quiet_hours_spread", "range", "0s.." + throttle.FormatPeriod(quiet.MaxSpread)},
		{"apps.NAME.apns.timeout", "default", apns.DefaultTimeout},
		{"apps.NAME.fcm.timeout", "default", fcmconfig.DefaultTimeout},
		{"apps.NAME.fcm.timeout", "range", "1ms.." + throttle.FormatPeriod(fcmconfig.MaxTimeout)},
		{"apps.NAME.webpush.timeout", "default", webpush.DefaultTimeout},
		{"apps.NAME.webpush.timeout", "range", "1ms.." + throttle.FormatPeriod(webpush.MaxTimeout)},
	} {
		if got := tags[one.key].Get(one.tag); got != fmt.Sprint(one.want) {
			t.Errorf("%s: %s is %s, want %v", one.key, one.tag, got, one.want)
		}
	}
	var algorithms []meter.Algorithm
	for _, name := range strings.Fields(tags["limits.device.algorithm"].Get("oneof")) {
		algorithms = append(algorithms, meter.Algorithm(name))
	}
	if want := slices.Sorted(slices.Values(meter.Algorithms)); !slices.Equal(slices.Sorted(slices.Values(algorithms)), want) {
		t.Errorf("the algorithms are %q, want %q", algorithms, want)
	}
}

// A key is a key that the configuration may have.
type key struct {
	path string // NAME stands for a name, [] for each entry of a list
	reflect.StructField
	owner  reflect.Type  // the struct that has the field
	value  reflect.Value // its default
	reload string
}

// keys calls visit with every key below a section, in the order of the structs; visit returns
// whether to continue below the key.
func keys(above key, visit func(key) bool) {
	section := above.value
	for _, f := range fieldsOf(section.Type()) {
		k := key{path: join(above.path, tagOf(f)), StructField: f, owner: section.Type(), value: section.FieldByIndex(f.Index), reload: above.reload}
		if len(f.Index) > 1 {
			k.owner = section.Type().FieldByIndex(f.Index[:len(f.Index)-1]).Type
		}
		if tag := f.Tag.Get("reload"); tag != "" {
			k.reload = tag
		}
		k.value = entry(&k.path, k.value)
		if visit(k) && k.value.Kind() == reflect.Struct {
			keys(k, visit)
		}
	}
}

// entry returns the section, with its defaults, behind a pointer or in a map or a list, and extends
// the path to it.
func entry(path *string, v reflect.Value) reflect.Value {
	switch {
	case v.Kind() == reflect.Map:
		*path += ".NAME"
	case v.Kind() == reflect.Slice && isList(v):
		*path += "[]"
	case v.Kind() != reflect.Pointer:
		return v
	}
	section := reflect.New(v.Type().Elem()).Elem()
	setDefaults(section)
	return entry(path, section)
}

// allKeys returns the keys of a whole configuration.
func allKeys() (all []key) {
	var c Config
	c.SetDefaults()
	keys(key{value: reflect.ValueOf(&c).Elem()}, func(k key) bool {
		all = append(all, k)
		return true
	})
	return all
}
