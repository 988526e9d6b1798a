//go:build unix && e2e

package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/test/chromium"
)

// A look is a tab's configuration.
type look struct {
	width    int64
	dark     bool
	scripted bool
}

func (l look) String() string {
	s := fmt.Sprint(l.width)
	if l.dark {
		s += " dark"
	}
	if !l.scripted {
		s += " without script"
	}
	return s
}

// A tab has its own cookies. It fails its test if a page reports a policy violation, a script
// error or a missing file.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string
	look look

	mu       sync.Mutex
	expected map[string]bool // addresses that may answer with an error
}

func (s *site) tab(t *testing.T, l look) *tab {
	t.Helper()
	return newTab(t, s.browser, s.url, l, chromedp.WithNewBrowserContext())
}

// another returns a second tab with the same cookies.
func (b *tab) another() *tab {
	b.t.Helper()
	return newTab(b.t, b.ctx, b.base, b.look)
}

func newTab(t *testing.T, parent context.Context, base string, l look, options ...chromedp.ContextOption) *tab {
	t.Helper()
	b := &tab{t: t, base: base, look: l, expected: map[string]bool{}}
	var end context.CancelFunc
	b.ctx, end = chromedp.NewContext(parent, append(options, chromedp.WithListener(b.onEvent))...)
	t.Cleanup(end)
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	b.do(chromedp.EmulateViewport(l.width, 900))
	b.call(func(ctx context.Context) error {
		return failure(chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
	})
	b.call(func(ctx context.Context) error { // as if the tab had the focus
		return failure(chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}))
	})
	if !l.scripted {
		b.call(func(ctx context.Context) error {
			return failure(chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
		})
	}
	return b
}

// onEvent fails the test on an event that reports an error.
func (b *tab) onEvent(event any) {
	switch e := event.(type) {
	case *log.EventEntryAdded:
		b.mu.Lock()
		expected := e.Entry.Source == log.EntrySourceNetwork && (b.expected[e.Entry.URL] || strings.Contains(e.Entry.Text, "503")) // see arrive
		b.mu.Unlock()
		if !expected && e.Entry.Level != log.EntryLevelVerbose {
			b.t.Errorf("%s: %s: %s", e.Entry.URL, e.Entry.Source, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		b.t.Errorf("a script failed: %s", e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.t.Errorf("a script wrote to the console: %s", e.Type)
	}
}

func (b *tab) call(f func(ctx context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, chromium.Patience)
	defer cancel()
	if chromedp.FromContext(b.ctx).Target == nil { // the tab closes when the context of its first call ends
		ctx = b.ctx
	}
	must(b.t, f(ctx))
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	b.call(func(ctx context.Context) error { return chromedp.Do(ctx, actions...) })
}

// open opens a page of the console, and expects the status want.
func (b *tab) open(want int64, path string) {
	b.t.Helper()
	b.expect(want, path)
	b.arrive(want, chromedp.Navigate(b.base+path))
}

// expect allows the address to answer with an error status.
func (b *tab) expect(status int64, path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected[b.base+path] = status >= 400
}

// arrive runs actions that lead to a page, and expects its status. On a busy machine a page may
// report that Redis does not answer; arrive then loads it again, up to 10 times.
func (b *tab) arrive(want int64, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	b.call(func(ctx context.Context) error {
		answer, err := chromedp.RunResponse(ctx, actions...)
		for again := 0; err == nil && want == http.StatusOK && answer.Status == http.StatusServiceUnavailable && again < 10; again++ {
			answer, err = chromedp.RunResponse(ctx, chromedp.Navigate(answer.URL))
		}
		if err == nil && answer.Status != want {
			b.t.Fatalf("%s: status %d, want %d:\n%s", answer.URL, answer.Status, want, b.text("main"))
		}
		return err
	})
}

// evaluate returns the value of an expression in the page. The page's policy does not apply to
// the expression.
func evaluate[T any](b *tab, expression string) (value T) {
	b.t.Helper()
	b.call(func(ctx context.Context) (err error) {
		value, err = chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
		return err
	})
	return value
}

// text returns the visible text of an element; "" without such an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return evaluate[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// until waits until the element shows all of the texts.
func (b *tab) until(selector string, want ...string) {
	b.t.Helper()
	for _, w := range want {
		b.untilTrue(fmt.Sprintf("document.querySelector(%q)?.innerText.includes(%q) ?? false", selector, w))
	}
}

// untilTrue waits until the condition holds in the page.
func (b *tab) untilTrue(condition string) {
	b.t.Helper()
	if !eventually.Within(chromium.Patience, func() bool { return evaluate[bool](b, condition) }) {
		b.t.Fatalf("%s does not come:\n%s", condition, b.text("body"))
	}
}

// run runs a script in the page.
func (b *tab) run(script string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](script))
}

// failure drops a call's result and returns its error.
func failure[T any](_ T, err error) error { return err }
