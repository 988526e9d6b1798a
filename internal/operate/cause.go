package operate

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"

	"github.com/pushpace/pushpace/internal/base/redisreply"
)

// maxCauseBytes bounds the logged text of an error.
const maxCauseBytes = 300

// quoted matches quotations in an error's text: they may be a client's data.
var quoted = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`")

// Cause returns an error's text for the log, without quotations.
func Cause(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "the client is gone"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "time-out: " + plain(err)
	}
	return plain(err)
}

func plain(err error) string {
	text := quoted.ReplaceAllString(redisreply.TextOf(err), "…")
	if open := strings.IndexAny(text, "\"`"); open >= 0 {
		text = text[:open] // the quotation does not end
	}
	if len(text) > maxCauseBytes {
		text = strings.ToValidUTF8(text[:maxCauseBytes], "") + "…"
	}
	return text
}
