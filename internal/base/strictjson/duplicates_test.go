package strictjson

import (
	"fmt"
	"strings"
	"testing"
)

func TestDuplicates(t *testing.T) {
	t.Parallel()
	var many strings.Builder // more than a linear search handles
	for i := range 2 * linearLimit {
		fmt.Fprintf(&many, `"n%d":%d,`, i, i)
	}
	for text, want := range map[string]string{
		`{"a":1,"b":2}`:                          "",
		`{"a":1,"a":2}`:                          "/a",
		`{"a":1,"A":2}`:                          "/A",
		`{"sound":1,"ſound":2}`:                  "/ſound",
		`{` + many.String() + `"s":1,"ſ":2}`:     "/ſ",
		`{` + many.String() + `"k":1,"K":2}`:     "/K",
		`{"data":{"a":1,"A":2}}`:                 "",
		`{"data":{"a":1,"a":2}}`:                 "/data/a",
		`[{"a":1},{"b":{"c":1,"\u0063":2}}]`:     "/1/b/c",
		`{"data":{` + many.String() + `"n3":1}}`: "/data/n3",
	} {
		got := ""
		for _, f := range Duplicates([]byte(text), "data") {
			got += f.Field
		}
		if got != want {
			t.Errorf("%.60s: %q, want %q", text, got, want)
		}
	}
}
