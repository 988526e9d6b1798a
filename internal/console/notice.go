package console

import (
	"net/url"
	"strconv"
	"strings"
)

// notices say what a form has done, by the address that it leads to: a closed set,
// so that no link puts words into the console's mouth. %s is the number n.
var notices = map[string]string{
	"cancelled":  "%s cancelled.",
	"signed-out": "You have signed out.",
}

// notice is what the address says has been done; "" for nothing.
func notice(query url.Values) string {
	text, known := notices[query.Get("done")]
	if !known {
		return ""
	}
	n, err := strconv.ParseUint(query.Get("n"), 10, 32)
	if err != nil {
		n = 0
	}
	return strings.ReplaceAll(text, "%s", group(n))
}
