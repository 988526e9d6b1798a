package strictjson

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
)

// Duplicates finds names that an object of a valid JSON text has twice, because readers differ on
// which of the two counts. Inside the openMembers, names belong to an app or a platform and are
// case-sensitive. All other names are pushpace's own, and encoding/json ignores their case.
func Duplicates(data []byte, openMembers ...string) fielderrors.Faults {
	var path [8][]byte // enough for most texts, on the stack
	var names [linearLimit][]byte
	s := nameScan{data: data, open: openMembers, path: path[:0], names: names[:0]}
	s.value(0)
	return s.faults
}

// A nameScan reads a valid text.
type nameScan struct {
	data   []byte
	at     int
	open   []string
	path   [][]byte // names and indices from the root to at
	names  [][]byte // names in the objects around at
	inside bool     // at is inside an open member
	faults fielderrors.Faults
}

// linearLimit is the number of names up to which a linear search is used.
const linearLimit = 16

func (s *nameScan) value(depth int) {
	s.space()
	switch s.data[s.at] {
	case '{':
		s.object(depth)
	case '[':
		s.array(depth)
	case '"':
		s.text()
	default:
		for s.at < len(s.data) && bytes.IndexByte(literalEnds, s.data[s.at]) < 0 {
			s.at++
		}
	}
	s.space()
}

var literalEnds = []byte(",]} \t\r\n")

func (s *nameScan) object(depth int) {
	first := len(s.names)
	var many map[string]bool // used above linearLimit names
	for s.at++; ; s.at++ {
		s.space()
		if s.data[s.at] == '}' {
			break
		}
		name := unescape(s.text())
		s.path = append(s.path, name)
		if many == nil && len(s.names)-first == linearLimit {
			many = map[string]bool{}
			for _, known := range s.names[first:] {
				many[s.key(known)] = true
			}
		}
		if many != nil && many[s.key(name)] || many == nil && s.known(s.names[first:], name) {
			s.faults.Add(s.pointer(), "is given twice")
		}
		if many != nil {
			many[s.key(name)] = true
		} else {
			s.names = append(s.names, name)
		}
		s.space()
		s.at++ // the colon
		outside := !s.inside
		if depth == 0 && outside {
			for _, open := range s.open {
				s.inside = s.inside || bytes.EqualFold(name, []byte(open))
			}
		}
		s.value(depth + 1)
		s.inside = !outside
		s.path = s.path[:len(s.path)-1]
		if s.data[s.at] == '}' {
			break
		}
	}
	s.at++
	s.names = s.names[:first]
}

func (s *nameScan) array(depth int) {
	for i := 0; ; i++ {
		s.at++
		s.space()
		if s.data[s.at] == ']' {
			break
		}
		s.path = append(s.path, strconv.AppendInt(nil, int64(i), 10))
		s.value(depth + 1)
		s.path = s.path[:len(s.path)-1]
		if s.data[s.at] == ']' {
			break
		}
	}
	s.at++
}

// text skips a string and returns the bytes between its quotes.
func (s *nameScan) text() []byte {
	start := s.at + 1
	for s.at++; s.data[s.at] != '"'; s.at++ {
		if s.data[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	return s.data[start : s.at-1]
}

func (s *nameScan) space() {
	for s.at < len(s.data) && (s.data[s.at] == ' ' || s.data[s.at] == '\n' || s.data[s.at] == '\t' || s.data[s.at] == '\r') {
		s.at++
	}
}

func (s *nameScan) known(names [][]byte, name []byte) bool {
	for _, known := range names {
		if s.inside && bytes.Equal(known, name) || !s.inside && bytes.EqualFold(known, name) {
			return true
		}
	}
	return false
}

// key returns a form of the name that is identical for names that count as equal.
func (s *nameScan) key(name []byte) string {
	if s.inside {
		return string(name)
	}
	return string(bytes.ToLower(bytes.ToUpper(name))) // as EqualFold: ſ is an s
}

func (s *nameScan) pointer() string {
	path := make([]string, len(s.path))
	for i, name := range s.path {
		path[i] = string(name)
	}
	return Pointer(path...)
}

// unescape returns a name without its escapes.
func unescape(written []byte) []byte {
	if bytes.IndexByte(written, '\\') < 0 {
		return written
	}
	var name string
	if err := json.Unmarshal(append(append([]byte{'"'}, written...), '"'), &name); err != nil {
		return written
	}
	return []byte(name)
}
