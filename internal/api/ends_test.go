package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A name with a space at its end would be another one that looks the same.
func TestNamesWithSpaceAtEndAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/v1/notifications", notification("one", "dup "), "ends in a space"},
		{"GET", "/v1/notifications/x%20", "", "The ID ends in a space"},
		{"DELETE", "/v1/notifications/%20x", "", "The ID begins with a space"},
		{"GET", "/v1/notifications/x?app=shop&user=dup%20", "", "The query's user must be a name: it ends in a space"},
		{"GET", "/v1/waiting?user=dup%C2%A0", "", "ends in white space (U+00A0)"},
		{"GET", "/v1/waiting?collapse_key=%20k", "", "begins with a space"},
		{"GET", "/v1/dead-letters?category=news%20", "", "ends in a space"},
		{"GET", "/v1/users/dup%20/timeline?app=shop", "", "The user ends in a space"},
		{"GET", "/v1/users/dup/timeline?app=shop&category=a&category=b%20", "", "ends in a space"},
		{"GET", "/v1/limits/users/dup%20", "", "The user ends in a space"},
		{"GET", "/v1/limits/apps/shop%20", "", "The app ends in a space"},
		{"PUT", "/v1/limits/users/dup%20", `{"min_gap":"1s"}`, "The user ends in a space"},
		{"PUT", "/v1/limits/users/dup/categories/news%20", `{"min_gap":"1s"}`, "The category ends in a space"},
		{"PUT", "/v1/limits/users/dup%20/mute", `{}`, "The user ends in a space"},
		{"POST", "/v1/limits/import", `{"overrides":[{"user":"dup ","min_gap":"1s"}]}`, "ends in a space"},
		{"POST", "/v1/limits/preview", `{"user":"dup ","min_gap":"1s"}`, "ends in a space"},
		{"PUT", "/v1/pauses?category=news%20", `{}`, "ends in a space"},
		{"DELETE", "/v1/pauses?category=news%20", "", "ends in a space"},
	} {
		if answer := r.do(http.StatusBadRequest, operatorToken, c.method, c.path, c.body); !strings.Contains(answer.text, c.want) {
			t.Errorf("%s %s: %s", c.method, c.path, answer.text)
		}
	}
}

// An older version took such names, and their overrides can still be removed.
func TestOverrideOfNameWithSpaceAtEndIsRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	level := limits.Level{User: "dup"}
	must(t, r.options.Overrides.Set(t.Context(), limits.Override{Level: level, Policy: throttle.Policy{MinGap: 1e9}, By: "ann"}))
	key := "pushpace:{limits}:overrides"
	value, err := r.client.HGet(t.Context(), key, level.Key()).Result()
	must(t, err)
	level.User = "dup "
	must(t, r.client.HSet(t.Context(), key, level.Key(), value).Err())
	r.do(http.StatusNoContent, operatorToken, "DELETE", "/v1/limits/users/dup%20", "")
	if left, err := r.client.HLen(t.Context(), key).Result(); err != nil || left != 1 {
		t.Errorf("%d are left, %v", left, err)
	}
}
