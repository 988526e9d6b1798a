package apiclient_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// Actions reads pages until it has the wanted number of actions, or until there are no more.
func TestActionsReadsAllNeededPages(t *testing.T) {
	t.Parallel()
	const kept = 2300
	var asked []string
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		query, _ := url.ParseQuery(r.URL.RawQuery)
		limit, _ := strconv.Atoi(query.Get("limit"))
		from := kept
		if before, _, _ := strings.Cut(query.Get("before"), "-"); before != "" {
			from, _ = strconv.Atoi(before)
		}
		var entries []string
		for n := from - 1; n >= max(0, from-limit); n-- {
			entries = append(entries, fmt.Sprintf(`{"cursor":"%d-0","at":"2026-11-24T00:00:00Z","by":"ada","action":"pause","count":1}`, n))
		}
		_, _ = fmt.Fprintf(w, `{"actions":[%s]}`, strings.Join(entries, ","))
	})
	for newest, want := range map[int]string{
		3:    "limit=3",
		1001: "limit=1000 before=1300-0&limit=1",
		5000: "limit=1000 before=1300-0&limit=1000 before=300-0&limit=1000",
	} {
		asked = nil
		all, err := c.Actions(t.Context(), newest)
		if err != nil || len(all) != min(newest, kept) || all[0].Cursor != "2299-0" || all[len(all)-1].Cursor != fmt.Sprint(kept-len(all))+"-0" {
			t.Errorf("%d: %d, %v", newest, len(all), err)
		}
		if got := strings.Join(asked, " "); got != want {
			t.Errorf("%d: %s", newest, got)
		}
	}
}
