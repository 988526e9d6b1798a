package console

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/pushpace/pushpace/internal/words"
)

// notices are the messages after an action, keyed by the redirect's parameter done. The set is
// closed, so that no link can put text on a page. %s is the number n.
var notices = map[string]string{
	"cancelled":         "%s cancelled.",
	"cancelled-in-part": "%s cancelled. The others had ended, are in flight, or were not reached in time: look again.",
	"requeued":          "%s requeued.",
	"requeued-in-part":  "%s requeued. The others were gone, or were not reached in time: look again.",
	"purged":            "%s purged.",
	"purged-in-part":    "%s purged. The others were gone, or were not reached in time: look again.",
	"paused":            "Paused. All workers obey within a second.",
	"resumed":           "%s ended. The paused notifications return within seconds.",
	"loss-confirmed":    "The loss is confirmed.",
	"more-lost":         "Nothing was confirmed: Redis has lost other data since.",
	"signed-out":        "You have signed out.",
	"limit-set":         "The limit is in force on every worker within a second.",
	"limit-undone":      "The change is undone.",
	"limit-unset":       "The override is removed.",
	"muted":             "Muted on every worker within a second. The waiting notifications end in the background.",
	"unmuted":           "The mute is removed.",
}

// notice returns the message for the query; "" for none.
func notice(query url.Values) string {
	text, known := notices[query.Get("done")]
	if !known {
		return ""
	}
	n, err := strconv.ParseUint(query.Get("n"), 10, 32)
	if err != nil {
		n = 0
	}
	return strings.ReplaceAll(text, "%s", words.Grouped(n))
}
