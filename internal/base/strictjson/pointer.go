package strictjson

import "strings"

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// Pointer returns the JSON pointer of a path.
func Pointer(path ...string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		pointerEscaper.WriteString(&b, name)
	}
	return b.String()
}
