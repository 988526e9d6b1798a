package standin

import (
	"net/http"
	"strings"
	"time"
)

// TokenRetryAfter is the Retry-After that a token can ask for.
const TokenRetryAfter = 2 * time.Second

// ByToken reads the answer from the token itself, for callers that can choose only
// tokens. It reports false for an ordinary token. The first eight characters, all of
// them hexadecimal, decide:
//
//	deaddead  the token is dead (status 410 on APNs)
//	baddbadd  the token is malformed (status 400)
//	fadeMSSS  status SSS: 400, 403, 410, 413, 429, 500, 503, ...; 502 is a
//	          proxy's HTML page
//	fadeM0ef  takes the push, then closes the connection (end of file)
//	fadeM90a  takes the push, then says GOAWAY and closes
//	fadeM90b  says GOAWAY without having taken the push
//	fadeM90c  says GOAWAY, and answers the accepted pushes before it closes
//	fadeMb1a  takes the push and never answers (black hole)
//
// M is 0: always; 1: for the token's first push only, later pushes are accepted; 2: always, with a
// Retry-After of 2 seconds; 3: both.
func ByToken(token string) (a Answer, once, ok bool) {
	if len(token) < 8 {
		return Answer{}, false, false
	}
	switch token[:8] {
	case "deaddead":
		return Answer{Status: http.StatusGone}, false, true
	case "baddbadd":
		return Answer{Status: http.StatusBadRequest}, false, true
	}
	if !strings.HasPrefix(token, "fade") || token[4] < '0' || token[4] > '3' {
		return Answer{}, false, false
	}
	mode := token[4] - '0'
	once = mode&1 != 0
	if mode&2 != 0 {
		a.RetryAfter = TokenRetryAfter
	}
	switch code := token[5:8]; code {
	case "0ef":
		a.Fault = Close
	case "90a":
		a.Fault = GoAway
	case "90b":
		a.Fault = GoAwayUnprocessed
	case "90c":
		a.Fault = Drain
	case "b1a":
		a.Fault = BlackHole
	case "502":
		a.Fault, a.Status = Page, http.StatusBadGateway
	default:
		for _, c := range []byte(code) {
			if c < '0' || c > '9' {
				return Answer{}, false, false
			}
			a.Status = a.Status*10 + int(c-'0')
		}
		if a.Status < 400 || a.Status > 599 {
			return Answer{}, false, false
		}
	}
	return a, once, true
}
