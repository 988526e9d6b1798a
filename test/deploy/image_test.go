//go:build e2e && soak && linux

package deploy

import (
	"debug/elf"
	"testing"
)

// asImage makes the tests build the program as the image does. That build shares no cache with other
// builds, and takes minutes.
const asImage = true

func TestImageIsStatic(t *testing.T) {
	t.Parallel()
	f, err := elf.Open(program(t))
	must(t, err)
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is not static: it has %s", p.Type)
		}
	}
}
