package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/apiclient"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// countTime is how long what waits is counted at most.
const countTime = time.Second

// countQueued counts what waits in words, within countTime: "no notification
// waits", "at least 12000 notifications wait". It is "" when that is not known.
func countQueued(ctx context.Context, b *apiclient.Client, s control.Selection) string {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	n := 0
	err := eachQueued(ctx, b, s, func(control.Queued) bool { n++; return true })
	switch {
	case err != nil && (n == 0 || ctx.Err() == nil):
		return ""
	case err != nil:
		return fmt.Sprintf("at least %d notifications wait", n)
	case n == 0:
		return "no notification waits"
	case n == 1:
		return "1 notification waits"
	}
	return fmt.Sprintf("%d notifications wait", n)
}

// tellPaused says what was paused, how much of it waits and what ends it.
func tellPaused(ctx context.Context, b *apiclient.Client, h pause.Pause) {
	what, flags := describePause(h)
	text := "Paused: " + what
	if !h.Until.IsZero() {
		text += " " + words.End(h.Until)
	}
	if h.Platform == "" { // which the queue is not searched for
		if n := countQueued(ctx, b, control.Selection{App: h.App, Category: h.Category}); n != "" {
			text += "; " + n
		}
	}
	fmt.Fprintln(os.Stderr, text+". To end it: pushpace resume "+flags)
}

// describePause is what a pause matches, in words and as flags.
func describePause(h pause.Pause) (text, flags string) {
	var say, flag []string
	for _, part := range []struct{ name, value string }{{"app", h.App}, {"platform", string(h.Platform)}, {"category", h.Category}} {
		if part.value != "" {
			say = append(say, part.name+" "+words.Quoted(part.value))
			flag = append(flag, "--"+part.name+" "+words.Quoted(part.value))
		}
	}
	if len(say) == 0 {
		return "everything", "--all"
	}
	return strings.Join(say, ", "), strings.Join(flag, " ")
}
