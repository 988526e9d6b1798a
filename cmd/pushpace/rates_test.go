//go:build unix

package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A token's rate holds at all processes of the API together, and changes while they run.
func TestServeRates(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const token = "shop-token-0123456789"
	tokens := func(rate string) string {
		return fmt.Sprintf("http:\n  listen: 127.0.0.1:0\n  tokens: [{name: shop, role: viewer, sha256: %x%s}]\n", sha256.Sum256([]byte(token)), rate)
	}
	s.configure(t, "http:\n", tokens(", rate: {rate: 2/1h}"))
	apis := [2]*program{}
	for i := range apis {
		apis[i] = start(t, s.setup, "serve", "--only", "api")
		apis[i].until(t, "serving", func() bool { return strings.Contains(apis[i].stderr.String(), "serving") })
	}
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests, http.StatusTooManyRequests} {
		apis[0], apis[1] = apis[1], apis[0]
		if got := apis[0].limitsStatus(t, token); got != want {
			t.Errorf("status %d, want %d", got, want)
		}
	}
	s.configure(t, "http:\n", tokens(""))
	for _, p := range apis {
		p.hangUp(t)
		p.says(t, 1, "the configuration is reloaded", `changed="http.tokens: [shop (viewer, {rate: 2/1h})] → [shop (viewer)]"`)
		if got := p.limitsStatus(t, token); got != http.StatusOK {
			t.Errorf("status %d without a rate", got)
		}
	}
	s.stop(t, apis[:]...)
}

// limitsStatus is what the program's API answers a token that asks for the limits.
func (p *program) limitsStatus(t *testing.T, token string) int {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(p.stderr.String())
	request, err := http.NewRequest(http.MethodGet, url+"/v1/limits", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}
