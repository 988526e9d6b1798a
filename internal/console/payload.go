package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pushpace/pushpace/push"
)

// maxPayload bounds the part of a payload that a page shows, in bytes.
const maxPayload = 16 << 10

// A payload is a notification's content for display: tokens, FIDs and keys are hidden, and invisible
// characters escaped.
type payload struct {
	Text string
	// More is the number of bytes left out at the end.
	More int64
}

// payloadOf returns the notification as JSON, and keeps the digits of its numbers.
func payloadOf(n *push.Notification) payload {
	shown := *n
	shown.Targets = slices.Clone(n.Targets)
	for i, t := range shown.Targets {
		hint := "…" + t.Hint()
		if shown.Targets[i] = (push.Target{Platform: t.Platform, Token: hint}); t.FID != "" {
			shown.Targets[i] = push.Target{Platform: t.Platform, FID: hint}
		}
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(&shown); err != nil { // accepted raw blocks are valid JSON
		return payload{}
	}
	return shownPayload(b.String())
}

// tokenTexts matches tokens, FIDs and keys in a text that may be a notification, whole or cut off.
var tokenTexts = regexp.MustCompile(`(?i)("(?:token|fid|p256dh|auth)"\s*:\s*")(?:[^"\\]|\\.)*`)

// payloadOfJob returns a job's content, even if it is no notification.
func payloadOfJob(job []byte) payload {
	if decoded, err := push.Decode(job); err == nil {
		return payloadOf(decoded.Notification)
	}
	job = tokenTexts.ReplaceAll(job, []byte("$1…"))
	var indented bytes.Buffer
	if json.Indent(&indented, job, "", "  ") == nil {
		job = indented.Bytes()
	}
	return shownPayload(string(job))
}

func shownPayload(text string) payload {
	var p payload
	text = strings.TrimSpace(text)
	if len(text) > maxPayload {
		cut := maxPayload
		for cut > maxPayload-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text, p.More = text[:cut], int64(len(text)-cut)
	}
	p.Text = visible(text)
	return p
}

// visible escapes invisible characters except line feeds.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || unicode.IsPrint(r) && r != unicode.ReplacementChar:
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
