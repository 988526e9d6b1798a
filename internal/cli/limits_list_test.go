package cli

import (
	"strings"
	"testing"
)

func TestReadOverrides(t *testing.T) {
	t.Parallel()
	const good = `{"user":"u","rates":["1/1m"],"by":"who","at":"2026-01-01T00:00:00Z"}`
	for _, c := range []struct {
		text string
		want string // in the error; "" for none
	}{
		{good, ""},
		{"\ufeff" + good + "\r\n\ufeff", ""}, // byte order marks, as in two files put together
		{good + "\n" + `{"user":"v","rates":["1/1x"]}`, `line 2: /rates/0: rate "1/1x"`},
		{`{"user":"v","rate":["1/1m"]}`, "line 1: /rate: is not a known field"},
		{good + "\n" + good, `line 2: has the same level as line 1: user u`},
		{`{"user":"v","rates":["1/1m"]} x`, "line 1: "},
		{strings.Repeat("x", maxLine+1), "line 1: the line is too long"},
		{`{"user":"v","rates":["1/1m"],"RATES":["9/1m"]}`, "line 1: /RATES"},
	} {
		read, err := readOverrides(strings.NewReader(c.text))
		switch {
		case c.want == "" && (err != nil || len(read.all) != 1):
			t.Errorf("%.60s: %+v, %v", c.text, read, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%.60s: %v, want %q", c.text, err, c.want)
		}
	}
}
