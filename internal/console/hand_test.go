//go:build unix && e2e

package console

import (
	"fmt"
	"net/http"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A hand uses a page as a person does, by its visible texts.
type hand interface {
	// press follows the link or presses the button, and waits for the next page.
	press(label string)
	// fill replaces the content of the labelled field.
	fill(label, text string)
}

// pressable and fillable return expressions for elements with a visible label.
func pressable(label string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("a, button")].find((e) => (e.ariaLabel ?? e.innerText.trim()) === %q && e.checkVisibility())`, label)
}

func fillable(label string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("label")].find((e) => e.textContent.trim() === %q)?.control`, label)
}

// A mouse points and clicks.
type mouse struct{ *tab }

func (m mouse) press(label string) {
	m.t.Helper()
	m.has(pressable(label), label)
	m.arrive(http.StatusOK, chromedp.Click(chromedp.JSPath(pressable(label))))
}

func (m mouse) fill(label, text string) {
	m.t.Helper()
	m.has(fillable(label), label)
	m.do(chromedp.Click(chromedp.JSPath(fillable(label))))
	evaluate[bool](m.tab, fillable(label)+".select() === undefined")
	m.do(chromedp.KeyEvent(text)) // the text replaces the selection
}

// keys uses only a keyboard.
type keys struct{ *tab }

func (k keys) press(label string) {
	k.t.Helper()
	k.reach(pressable(label), label)
	k.arrive(http.StatusOK, chromedp.KeyEvent(kb.Enter))
}

func (k keys) fill(label, text string) {
	k.t.Helper()
	k.reach(fillable(label), label)
	k.do(chromedp.KeyEvent(text)) // the old text is selected
}

// reach presses Tab until the element has the focus, and expects the focus to be visible.
func (k keys) reach(element, label string) {
	k.t.Helper()
	k.has(element, label)
	// A browser sets the autofocus after the page has loaded, and reports an error if the focus
	// is elsewhere then.
	k.untilTrue(`!document.querySelector("[autofocus]") || document.activeElement !== document.body`)
	const most = 200
	for range most {
		k.do(chromedp.KeyEvent(kb.Tab))
		if !evaluate[bool](k.tab, "document.activeElement === "+element) {
			continue
		}
		if !evaluate[bool](k.tab, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
			k.t.Errorf("%q does not show that it has the focus", label)
		}
		return
	}
	k.t.Fatalf("no key leads to %q", label)
}

// has expects the element on the page.
func (b *tab) has(element, label string) {
	b.t.Helper()
	if !evaluate[bool](b, "!!"+element) {
		b.t.Fatalf("%q is not on the page:\n%s", label, b.text("body"))
	}
}
