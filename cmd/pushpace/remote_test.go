//go:build unix

package main

import (
	"testing"
	"time"
)

// through is how a program goes through the API at that URL: it has nothing else.
func through(url, token string) setup {
	return setup{env: []string{"PUSHPACE_API=" + url, "PUSHPACE_API_TOKEN=" + token}}
}

// said is what a program printed, and how it ended.
type said struct {
	status         int
	stdout, stderr string
}

func ended(t *testing.T, s setup, args ...string) said {
	t.Helper()
	p := start(t, s, args...)
	return said{p.wait(t, 20*time.Second), p.stdout.String(), p.stderr.String()}
}
