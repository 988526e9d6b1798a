package cli

import "fmt"

// warnedMost bounds the different warnings that are printed; the others are counted together.
const warnedMost = 100

// warned counts each warning about notifications.
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

// print prints each warning once.
func (w *warned) print() {
	for _, text := range w.order {
		if n := w.counts[text]; n > 1 {
			text += fmt.Sprintf(" (%d notifications)", n)
		}
		warnUser(text)
	}
	if w.others > 0 {
		warnUser(fmt.Sprintf("and %d more warnings with different texts", w.others))
	}
}
