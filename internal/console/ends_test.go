package console

import (
	"net/http"
	"net/url"
	"testing"
)

func TestNamesWithSpaceAtEndAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, says := range map[string]string{
		"/console/limits/edit?user=dup+":            "The user ends in a space: remove it.",
		"/console/users/dup%20":                     "The user ends in a space: remove it.",
		"/console/users/dup?app=shop&category=b%20": "The category ends in a space: remove it.",
		"/console/waiting?collapse_key=+k":          "The collapse key begins with a space: remove it.",
		"/console/dead-letters?category=news+":      "The category ends in a space: remove it.",
		"/console/notifications/x%20":               "The ID ends in a space: remove it.",
	} {
		contains(t, r.get(http.StatusBadRequest, path), says)
	}
	contains(t, r.post(http.StatusBadRequest, "/console/pauses", url.Values{"category": {"news "}, "for": {"2h"}}), "The category ends in a space: remove it.")
	contains(t, r.post(http.StatusBadRequest, "/console/limits/edit", url.Values{"user": {"dup "}, "min_gap": {"1s"}, "over": {"0"}, "do": {"apply"}}), "The user ends in a space: remove it.")
	if len(r.inForce()) > 0 {
		t.Error("it is paused")
	}
}
