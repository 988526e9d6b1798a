//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// An operator pauses a platform; what is for it waits, what is for the other
// flows; and after the resumption nothing is missing.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.Simulate(t)
	workers := s.Serve(t)
	apns := []string{"--app", "demo", "--platform", "apns"}
	s.Run(t, rig.Done, append([]string{"pause", "--for", "1h", "--by", "ada", "--reason", "a new certificate"}, apns...)...)
	workers.Says(t, 1, "level=INFO", "paused by an operator", "app=demo platform=apns", "by=ada", `reason="a new certificate"`)
	var input strings.Builder
	for i := range 10 {
		input.WriteString(rig.Notification(fmt.Sprintf("held-%d", i), fmt.Sprintf("ada-%d", i), "chat", "apns", "00"))
		input.WriteString(rig.Notification(fmt.Sprintf("flows-%d", i), fmt.Sprintf("ben-%d", i), "chat", "fcm", "ben-pixel"))
	}
	s.Send(t, rig.Done, input.String())
	workers.Until(t, "the other platform's", func() bool { return len(s.Ledger(t)) == 10 })
	for _, e := range s.Ledger(t) {
		if e.Platform != "fcm" {
			t.Errorf("%+v", e)
		}
	}
	out, _ := s.Run(t, rig.Done, "status", "held-0")
	if !strings.Contains(out, "waits for  apns of demo, paused by ada since ") || !strings.Contains(out, ": a new certificate; until ") {
		t.Errorf("status:\n%s", out)
	}
	var status control.Status
	out, _ = s.Run(t, rig.Done, "status", "held-0", "--json")
	if err := json.Unmarshal([]byte(out), &status); err != nil || len(status.Paused) != 1 || status.Paused[0].By != "ada" {
		t.Errorf("status: %s, %v", out, err)
	}
	var listed pause.Pause
	out, _ = s.Run(t, rig.Done, "pauses", "--json")
	if err := json.Unmarshal([]byte(out), &listed); err != nil || listed.Kind != pause.Operator || listed.Platform != "apns" || time.Until(listed.Until) < 59*time.Minute {
		t.Errorf("pauses: %s, %v", out, err)
	}
	if out, _ = s.Run(t, rig.Done, "pauses"); !strings.Contains(out, "KIND") || !strings.Contains(out, "  demo  ") || !strings.Contains(out, "a new certificate") {
		t.Errorf("pauses:\n%s", out)
	}

	if _, words := s.Run(t, rig.Done, append([]string{"resume", "--by", "ben"}, apns...)...); !strings.Contains(words, "ended: apns of demo, paused by ada since ") {
		t.Errorf("resumed: %s", words)
	}
	workers.Until(t, "what was paused", func() bool { return len(s.Ledger(t)) == 20 })
	workers.Says(t, 1, "an operator's pause is over", "app=demo platform=apns", "ended_by=ben")
	if _, words := s.Run(t, rig.Failed, append([]string{"resume"}, apns...)...); !strings.Contains(words, "no pause of app demo, platform apns is in force") {
		t.Errorf("resumed again: %s", words)
	}
	if out, words := s.Run(t, rig.Done, "pauses"); out != "" || !strings.Contains(words, "Nothing is paused.") {
		t.Errorf("pauses: %s%s", out, words)
	}
	s.Run(t, rig.Done, "audit")
	s.Stop(t, workers)
}
