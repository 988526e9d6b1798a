package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// rated returns the tokens with a rate for the producer's: count an hour.
func rated(count int) []config.Token {
	tokens := testTokens()
	tokens[0].Rate = &config.Quota{Rate: throttle.Rate{Count: count, Period: time.Hour}}
	return tokens
}

func batchOf(from, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = notification(fmt.Sprint("n", from+i), "ada")
	}
	return "[" + strings.Join(all, ",") + "]"
}

// All processes together count a token's notifications and other requests. A request over its
// rate gets 429 and has no effect.
func TestRequestOverTokensRateIsRefused(t *testing.T) {
	t.Parallel()
	withRate := func(o *rigOptions) { o.HTTP.Tokens = rated(10) }
	r := newRig(t, withRate)
	other := newRigOn(t, r.client, withRate)
	passes := func(r *rig, want int, method, path, body string) {
		t.Helper()
		got := r.do(want, producerToken, method, path, body).Header
		if got.Get("RateLimit-Policy") != `"shop:10/1h";q=10;w=3600` || got.Get("RateLimit") != "" {
			t.Errorf("%s %s: %v", method, path, got)
		}
	}
	denied := func(r *rig, units int, method, path, body string) {
		t.Helper()
		answer := r.do(http.StatusTooManyRequests, producerToken, method, path, body)
		after, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if most := units * 360; err != nil || after > most || after < 1 { // 10 an hour are one in 360 s
			t.Errorf("%s %s: come again after %d s, want up to %d: %v", method, path, after, most, err)
		}
		if got, want := answer.Header.Get("RateLimit"), fmt.Sprintf(`"shop:10/1h";r=0;t=%d`, after); got != want || answer.Header.Get("RateLimit-Policy") == "" {
			t.Errorf("%s %s: RateLimit %s, want %s", method, path, got, want)
		}
		if p := answer.problem(t); p.Detail != "The token's rate, 10/1h, does not allow this now." {
			t.Errorf("%s %s: %+v", method, path, p)
		}
	}
	passes(r, http.StatusAccepted, "POST", "/v1/notifications", notification("one", "ada")) // 1
	passes(other, http.StatusAccepted, "POST", "/v1/notifications:batch", batchOf(0, 4))    // 5
	passes(r, http.StatusOK, "GET", "/v1/notifications/one", "")                            // 6
	denied(r, 1, "POST", "/v1/notifications:batch", batchOf(4, 5))
	denied(other, 1, "POST", "/v1/notifications", batchOf(4, 5))
	passes(r, http.StatusAccepted, "POST", "/v1/notifications", batchOf(4, 2))  // 8
	passes(other, http.StatusBadRequest, "POST", "/v1/notifications", "[")      // 9
	passes(r, http.StatusBadRequest, "POST", "/v1/notifications:batch", "null") // 10
	denied(r, 1, "DELETE", "/v1/notifications/one", "")
	denied(r, 3, "POST", "/v1/notifications", batchOf(0, 3))
	denied(other, 1, "GET", "/v1/notifications/one", "")
	if got := r.counts(); got.Accepted != 7 {
		t.Errorf("%+v, want 7 accepted", got)
	}
	large := r.do(http.StatusRequestEntityTooLarge, producerToken, "POST", "/v1/notifications", batchOf(0, 11)).problem(t)
	if large.Detail != "The batch has 11 notifications, and the token's rate allows at most 10 at once: split it." {
		t.Errorf("%+v", large)
	}
	if free := r.do(http.StatusOK, viewerToken, "GET", "/v1/limits", "").Header; free.Get("RateLimit-Policy") != "" {
		t.Errorf("a token without a rate: %v", free)
	}
	// a higher rate restores no used units
	r.api.o.Tokens.Set(rated(20))
	r.do(http.StatusTooManyRequests, producerToken, "POST", "/v1/notifications", notification("two", "ada"))
	r.api.o.Tokens.Set(testTokens())
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("two", "ada"))
}

// All rates of a token hold, and the answer names the one that is used up.
func TestProblemNamesUsedUpRateOfAPIToken(t *testing.T) {
	t.Parallel()
	tokens := testTokens()
	tokens[2].Rate = &config.Quota{Algorithm: meter.FixedWindow, Rates: []throttle.Rate{{Count: 3, Period: 24 * time.Hour}, {Count: 100, Period: time.Hour}}}
	r := newRig(t, func(o *rigOptions) { o.HTTP.Tokens = tokens })
	for range 3 {
		r.do(http.StatusOK, operatorToken, "GET", "/v1/limits", "")
	}
	answer := r.do(http.StatusTooManyRequests, operatorToken, "GET", "/v1/limits", "").Header
	if got := answer.Get("RateLimit-Policy"); got != `"ada:3/24h";q=3;w=86400, "ada:100/1h";q=100;w=3600` {
		t.Error(got)
	}
	if got := answer.Get("RateLimit"); !strings.HasPrefix(got, `"ada:3/24h";r=0;t=`) {
		t.Error(got)
	}
}
