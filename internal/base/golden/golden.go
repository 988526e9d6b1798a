// Package golden compares texts of tests with files. With the flag -update, tests write these files.
package golden

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files that the tests compare with")

// Match fails the test if the file does not have exactly this text.
func Match(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	if got == want {
		return
	}
	same := 0
	for same < min(len(got), len(want)) && got[same] == want[same] {
		same++
	}
	line := strings.LastIndexByte(got[:same], '\n') + 1
	t.Errorf("%s differs from line %d on; the flag -update writes it: got\n%.2000s\nwant\n%.2000s", file, 1+strings.Count(got[:line], "\n"), got[line:], want[line:])
}
