package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/pushpace/pushpace/internal/base/names"
)

// decoder sets a Config from a file and the environment. It continues after a
// fault, and records the place of each value for the checks that follow.
type decoder struct {
	file   string
	faults Faults
	origin map[string]Fault  // by key; only the place is set
	files  map[string]string // the path of every *_file that was given, by key
}

// fault adds a fault of a key.
func (d *decoder) fault(key, message string) { d.faults = append(d.faults, d.placed(key, message)) }

// placed returns a fault at the key's place, or at that of the nearest key above it.
func (d *decoder) placed(key, message string) Fault {
	f := Fault{File: d.file}
	for at := key; ; at = parent(at) {
		if o, ok := d.origin[at]; ok {
			f = o
			break
		}
		if at == "" {
			break
		}
	}
	f.Key, f.Message = key, message
	return f
}

// place records the beginning of n as the place of the key.
func (d *decoder) place(key string, n ast.Node) {
	// The YAML token of a mapping in block style is its first colon.
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	at := n.GetToken().Position
	d.origin[key] = Fault{File: d.file, Line: at.Line, Column: at.Column}
}

// yaml decodes a whole file. It reports false when the file is not YAML.
func (d *decoder) yaml(data []byte, into any) bool {
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err)
		return false
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
	case 1:
		d.node("", bodies[0], reflect.ValueOf(into).Elem())
	default:
		d.place("", bodies[1])
		d.fault("", "there is a second document; want one")
	}
	return true
}

// quoted matches a piece of the file inside a parser's message.
var quoted = regexp.MustCompile(`:? ?"(\\.|[^"\\])*"`)

// syntax reports a parser's error by its message, without quotations from the file. The error's full
// text would also show the lines around the error.
func (d *decoder) syntax(err error) {
	f := Fault{File: d.file, Message: "not valid YAML"}
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		message := quoted.ReplaceAllString(syntax.GetMessage(), "")
		f.Message += ": " + strings.ReplaceAll(message, "\t", `\t`)
		if strings.Contains(message, "escape character") {
			f.Message += ": " + useSingleQuotes
		}
		if strings.Contains(message, "flow map content") {
			f.Message += ": {{ begins a template's placeholder, and nothing replaces it here"
		}
		if tk := syntax.GetToken(); tk != nil && tk.Position != nil {
			f.Line, f.Column = tk.Position.Line, tk.Position.Column
		}
	}
	d.faults = append(d.faults, f)
}

// node decodes n, the value of key, into v.
func (d *decoder) node(key string, n ast.Node, v reflect.Value) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		d.place(key, n)
		d.fault(key, "anchors, aliases, merge keys and tags are not supported")
		return
	case *ast.NullNode: // the key counts as absent
		return
	}
	if v.Kind() == reflect.Pointer {
		d.node(key, n, allocate(v))
		return
	}
	if address, ok := v.Addr().Interface().(*Address); ok {
		d.address(key, n, address)
		return
	}
	if text, ok := scalarText(n); ok {
		if section, ok := v.Addr().Interface().(named); ok {
			d.place(key, n)
			d.name(key, text, section)
			return
		}
	}
	switch {
	case isText(v):
		d.scalar(key, n, v)
	case v.Kind() == reflect.Struct:
		d.structure(key, n, v)
	case v.Kind() == reflect.Map:
		d.mapping(key, n, v)
	case v.Kind() == reflect.Slice:
		d.sequence(key, n, v)
	default:
		d.scalar(key, n, v)
	}
}

// name sets a section that the file or the environment gives as a name.
func (d *decoder) name(key, text string, section named) {
	fault := d.placeholderFault(key, text, false)
	if fault == "" {
		fault = names.Ends(text)
	}
	if fault != "" {
		d.fault(key, fault)
		return
	}
	section.setName(text)
}

// allocate returns the value that v points to. A nil v first gets a value with the defaults.
func allocate(v reflect.Value) reflect.Value {
	if v.IsNil() {
		v.Set(reflect.New(v.Type().Elem()))
		setDefaults(v.Elem())
	}
	return v.Elem()
}

// entries calls f for each entry of a mapping, each key once.
func (d *decoder) entries(key string, n ast.Node, f func(name string, at ast.Node, value ast.Node)) {
	m, ok := n.(ast.MapNode)
	if !ok {
		d.place(key, n)
		d.fault(key, "want keys with values")
		return
	}
	seen := make(map[string]int)
	for it := m.MapRange(); it.Next(); {
		name, ok := scalarText(it.Key())
		at := it.Key().GetToken().Position
		fault := Fault{File: d.file, Line: at.Line, Column: at.Column, Key: key}
		switch {
		case it.Key().IsMergeKey():
			fault.Message = "anchors, aliases, merge keys and tags are not supported"
		case !ok:
			fault.Message = "there is a key that is not a name"
		case seen[name] > 0:
			fault.Key = join(key, name)
			fault.Message = fmt.Sprintf("given twice, first on line %d", seen[name])
		default:
			seen[name] = at.Line
			f(name, it.Key(), it.Value())
			continue
		}
		d.faults = append(d.faults, fault)
	}
}

func (d *decoder) structure(key string, n ast.Node, v reflect.Value) {
	d.entries(key, n, func(name string, at, value ast.Node) {
		field, ok := fieldByTag(v, name)
		if !ok {
			d.unknown(key, name, at, fieldTags(v))
			return
		}
		d.place(join(key, name), at)
		d.node(join(key, name), value, field)
		d.pathOf(join(key, name), name, filepath.Dir(d.file), field)
	})
}

// pathOf records the path in a key that names a file. A relative path starts
// at base.
func (d *decoder) pathOf(key, name, base string, v reflect.Value) {
	if !strings.HasSuffix(name, "_file") {
		return
	}
	path := v.String()
	if path == "" {
		delete(d.files, key)
		return
	}
	if fault := pathFault(path); fault != "" {
		d.fault(key, fault)
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	v.SetString(path)
	d.files[key] = path
}

// pathFault returns the fault of a path that cannot name a file, or "".
func pathFault(path string) string {
	escaped := func(r rune) bool {
		return r == utf8.RuneError || unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp)
	}
	switch {
	case path == "~" || strings.HasPrefix(path, "~/"):
		return "~ is not expanded: write the whole path, or one relative to the configuration file"
	case strings.ContainsFunc(path, escaped):
		return "holds a control character: " + useSingleQuotes
	}
	return ""
}

const useSingleQuotes = `in double quotes \ begins an escape; write a path with \ in single quotes`

func (d *decoder) mapping(key string, n ast.Node, v reflect.Value) {
	d.entries(key, n, func(name string, at, value ast.Node) {
		d.place(join(key, name), at)
		message := nameFault(name)
		if message == "" && hasPlaceholder(name) {
			message = "the name has a placeholder such as ${NAME}, which nothing replaces: write the name itself"
		}
		if message != "" {
			d.fault(join(key, name), message)
			return
		}
		setElement(v, name, func(element reflect.Value) { d.node(join(key, name), value, element) })
	})
}

// setElement changes one element of a map. If the map or the element does not exist, setElement creates
// it; a new element has the defaults.
func setElement(m reflect.Value, name string, change func(reflect.Value)) {
	if m.IsNil() {
		m.Set(reflect.MakeMap(m.Type()))
	}
	element := reflect.New(m.Type().Elem())
	if old := m.MapIndex(reflect.ValueOf(name)); old.IsValid() {
		element.Elem().Set(old)
	} else {
		setDefaults(element.Elem())
	}
	change(element.Elem())
	m.SetMapIndex(reflect.ValueOf(name), element.Elem())
}

func (d *decoder) sequence(key string, n ast.Node, v reflect.Value) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.place(key, n)
		d.fault(key, "want a list")
		return
	}
	list := reflect.MakeSlice(v.Type(), len(s.Values), len(s.Values))
	for i, value := range s.Values {
		d.place(index(key, i), value)
		if _, null := value.(*ast.NullNode); null {
			d.fault(index(key, i), "is empty")
			continue
		}
		setDefaults(list.Index(i))
		d.node(index(key, i), value, list.Index(i))
	}
	v.Set(list)
}

func (d *decoder) scalar(key string, n ast.Node, v reflect.Value) {
	d.place(key, n)
	text, ok := scalarText(n)
	if !ok {
		d.fault(key, "want one value, not a list or keys")
		return
	}
	d.text(key, text, v)
}

// text sets a scalar from its text, whether from the file or the environment.
func (d *decoder) text(key, text string, v reflect.Value) {
	if fault := d.valueFault(key, text, v); fault != "" {
		d.fault(key, fault)
		return
	}
	if err := setText(v, text); err != nil {
		d.fault(key, err.Error())
	}
}

// scalarText is a scalar as written, without its quotes.
func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func (d *decoder) unknown(key, name string, at ast.Node, known []string) {
	place := at.GetToken().Position
	f := Fault{File: d.file, Line: place.Line, Column: place.Column, Key: key}
	if shownName(name) {
		f.Key = join(key, name)
	}
	f.Message = unknownKey(known)
	d.faults = append(d.faults, f)
}
