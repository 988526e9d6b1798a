package cli

import "fmt"

// warnedMost is how many warnings are told each; the others are counted together.
const warnedMost = 100

// warned are the warnings about notifications, each counted.
type warned struct {
	counts map[string]int
	order  []string
	others int
}

func (w *warned) add(warnings []string) {
	for _, text := range warnings {
		if w.counts[text] == 0 && len(w.order) == warnedMost {
			w.others++
			continue
		}
		if w.counts == nil {
			w.counts = map[string]int{}
		}
		if w.counts[text]++; w.counts[text] == 1 {
			w.order = append(w.order, text)
		}
	}
}

// tell tells each of them once.
func (w *warned) tell() {
	for _, text := range w.order {
		if n := w.counts[text]; n > 1 {
			text += fmt.Sprintf(" (%d notifications)", n)
		}
		warnUser(text)
	}
	if w.others > 0 {
		warnUser(fmt.Sprintf("and %d more warnings of other kinds", w.others))
	}
}
