//go:build unix && e2e

package console

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// Texts and forms of a page use one time zone, chosen by the reader.
func (s *site) testZone(t *testing.T) {
	t.Parallel()
	b := s.tab(t, look{width: 1440, scripted: true})
	b.call(func(ctx context.Context) error {
		return failure(chromedp.Call(ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"}))
	})
	all := func(zone string) {
		t.Helper()
		b.untilTrue(fmt.Sprintf(`[...document.querySelectorAll("time[datetime]")].every((e) => e.textContent.endsWith(new Date(e.dateTime).toLocaleTimeString("sv", {timeZone: %q})))`, zone))
		b.untilTrue(fmt.Sprintf(`[...document.querySelectorAll("tspan[data-at]")].every((e) => e.textContent.includes(new Date(e.dataset.at).toLocaleTimeString("sv", {timeZone: %q})))`, zone))
		b.until(".state", zone)
	}
	b.signIn(operatorToken, "/console/users/ada?app=demo")
	all("Asia/Tokyo")
	b.do(chromedp.Click(chromedp.CSS("#zone")))
	all("UTC")
	b.later() // updates use the zone too
	all("UTC")

	b.open(http.StatusOK, "/console/pauses") // the next page uses the zone as well
	all("UTC")
	// In one step: the page may be updated until the reader has typed into a form.
	b.run(`{
		const until = document.getElementById("until");
		until.value = "2099-01-01T10:00:00";
		until.dispatchEvent(new Event("input", {bubbles: true}));
	}`)
	b.do(chromedp.Click(chromedp.CSS("#zone")))
	b.untilTrue(`document.getElementById("until").value.startsWith("2099-01-01T19:00")`)
	b.run(`document.getElementById("app").value = "shop"`)
	mouse{b}.press("Pause notifications")
	b.judge("confirmation")
	b.untilTrue(`document.querySelector("dd time").dateTime === "2099-01-01T10:00:00Z"`)
	all("Asia/Tokyo")

	b.open(http.StatusOK, "/console/waiting") // one box selects all
	boxes := evaluate[int](b, `document.querySelectorAll("input[name=ref]").length`)
	if boxes < 2 {
		t.Fatalf("%d wait", boxes)
	}
	b.do(chromedp.Click(chromedp.CSS("input[data-all]")))
	b.until("main", fmt.Sprint("Cancel ", boxes))
	s.send(t, 3, "quin", "orders") // they must not change a page with a selection
	b.still()
	b.run(`document.querySelector("input[name=ref]").click()`)
	b.until("main", fmt.Sprint("Cancel ", boxes-1))
}
