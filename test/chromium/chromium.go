// Package chromium starts a browser for tests.
package chromium

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Patience bounds a browser's start, and a test's wait for a change of the page.
const Patience = 2 * time.Minute

// Start runs a browser without a screen until the test ends. Without Chromium it skips the test, or
// fails it if PUSHPACE_REQUIRE_CHROMIUM is 1.
func Start(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path(t)), chromedp.WSURLReadTimeout(Patience))
	if os.Geteuid() == 0 { // chromium has no sandbox for root
		options = append(options, chromedp.NoSandbox)
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	browser, stop := chromedp.NewContext(allocator)
	t.Cleanup(func() { stop(); end() })
	if err := chromedp.Do(browser); err != nil {
		t.Fatal(err)
	}
	return browser
}

func path(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("PUSHPACE_REQUIRE_CHROMIUM") == "1" {
		t.Fatal("PUSHPACE_REQUIRE_CHROMIUM is 1, and there is no chromium")
	}
	t.Skip("this test needs chromium")
	return ""
}
