package compare

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// The picture is well formed and runs nothing, has colours for a light and a dark
// page, and a band for each contestant.
func TestPicture(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"poisson:20/s", "burst:1", "hourly"} {
		a, err := Synthesize(text)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Replay(a, Default())
		if err != nil {
			t.Fatal(err)
		}
		picture := c.Draw()
		elements := map[string]int{}
		var words []string
		for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			switch token := token.(type) {
			case xml.StartElement:
				elements[token.Name.Local]++
			case xml.CharData:
				words = append(words, string(token))
			}
		}
		if elements["script"] > 0 || elements["title"] != 1 || elements["desc"] != 1 || elements["use"] != len(Default())+1 {
			t.Errorf("%s: %v", text, elements)
		}
		said := strings.Join(words, "\n")
		for _, want := range []string{"prefers-color-scheme:dark", "published_counters", "too soon", "0s"} {
			if text == "poisson:20/s" && !strings.Contains(said, want) {
				t.Errorf("%q is not there", want)
			}
		}
		if len(picture) > 64<<10 || !bytes.Equal(picture, c.Draw()) {
			t.Errorf("%s: %d bytes, or another picture each time", text, len(picture))
		}
	}
}
