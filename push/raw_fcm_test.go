package push

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The file has raw blocks that FCM accepts and refuses. The stand-in's test reads the file too.
func TestFCMBlockIsValidatedLikeFCM(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/fcm_forms.json")
	must(t, err)
	var forms struct{ Valid, Refused []json.RawMessage }
	must(t, json.Unmarshal(text, &forms))
	check := func(block json.RawMessage, valid bool) {
		n := sample()
		n.FCM = block
		if err := n.Validate(); (err == nil) != valid {
			t.Errorf("%s: %v, want valid %t", block, err, valid)
		}
	}
	for _, block := range forms.Valid {
		check(block, true)
	}
	for _, block := range forms.Refused {
		check(block, false)
	}
}

// Validate rejects a FID that is certainly something else. It does not decide between a token and a FID:
// a FID is accepted as a token, and most tokens as a FID. A queued FID is sent.
func TestFIDOfWrongKindIsRejected(t *testing.T) {
	t.Parallel()
	for fid, holds := range map[string]string{
		"null": "no value", "/topics/news": "a topic", "ExponentPushToken[abc]": "Expo", "https://fcm.googleapis.com/fcm/send/a": "a URL",
		strings.Repeat("0aB1", 16): "an APNs device token", "dGVzdA:APA91b_-x": "is an FCM registration token, which belongs in token",
		"f": "", "deQ7zv1tRk2bX0mYw9sLpA": "", "dGVzdA:x": "", strings.Repeat("x", 140): "",
	} {
		n := sample()
		n.Targets = []Target{{Platform: FCM, FID: fid}}
		f := faultsOf(t, n.Validate())
		if holds == "" && len(f) > 0 || holds != "" && (len(f) != 1 || f[0].Field != "/targets/0/fid" || !strings.Contains(f[0].Problem, holds)) {
			t.Errorf("%s: %v, want %q", fid, f, holds)
		}
		if f := n.faults(); len(f) > 0 {
			t.Errorf("%s on the queue: %v", fid, f)
		}
	}
	n := sample()
	n.Targets = []Target{{Platform: FCM, Token: "deQ7zv1tRk2bX0mYw9sLpA"}}
	if err := n.Validate(); err != nil {
		t.Errorf("a FID as token: %v", err)
	}
	n.Targets = []Target{{Platform: FCM}}
	if f := faultsOf(t, n.Validate()); len(f) != 1 || f[0].Field != "/targets/0/token" || !strings.Contains(f[0].Problem, "a Firebase Installation ID in fid") {
		t.Errorf("neither: %v", f)
	}
	n.Targets = []Target{{Platform: APNs, FID: "f"}}
	if f := faultsOf(t, n.Validate()); len(f) != 1 || f[0].Field != "/targets/0/fid" || !strings.Contains(f[0].Problem, "all others need a token") {
		t.Errorf("a FID for APNs: %v", f)
	}
	n.Targets, n.FCM = []Target{{Platform: FCM, FID: "f"}}, json.RawMessage(`{"fid":"g"}`)
	if f := faultsOf(t, n.Validate()); len(f) != 1 || f[0].Field != "/fcm/fid" || !strings.Contains(f[0].Problem, "targets say where it goes") {
		t.Errorf("a FID in the raw block: %v", f)
	}
}

// Validate refuses a text that is certainly no token of FCM. A queued notification with such a token is
// still sent to its other targets.
func TestTokenOfWrongKindIsRefused(t *testing.T) {
	t.Parallel()
	for token, holds := range map[string]string{
		"null": "no value", "undefined": "no value", "None": "no value", "[object Object]": "no value", "<null>": "no value",
		"/topics/news": "a topic", "'news' in topics || 'b' in topics": "a condition",
		"ExponentPushToken[abc]": "Expo", "ExpoPushToken[abc]": "Expo", "https://fcm.googleapis.com/fcm/send/a": "a URL", `{"endpoint":"x"}`: "JSON",
		strings.Repeat("0aB1", 16): "an APNs device token", strings.Repeat("0aB1", 40): "an APNs device token",
		"t": "", "deadbeef": "", "cid-pixel": "", "dGVzdA:APA91b_-x": "", "APA91bLegacy": "", "nullable": "",
	} {
		n := sample()
		n.Targets = []Target{{Platform: FCM, Token: token}}
		f := faultsOf(t, n.Validate())
		if holds == "" && len(f) > 0 || holds != "" && (len(f) != 1 || f[0].Field != "/targets/0/token" || !strings.Contains(f[0].Problem, holds)) {
			t.Errorf("%s: %v, want %q", token, f, holds)
		}
		if f := n.faults(); !strings.Contains(token, " ") && len(f) > 0 {
			t.Errorf("%s on the queue: %v", token, f)
		}
	}
	for token, holds := range map[string]string{"null": "no value", "ExponentPushToken[a]": "Expo", "dGVzdA:APA91b_-x": "FCM", "/topics/news": "topic", "xyz": "hexadecimal"} {
		n := sample()
		n.Targets = []Target{{Platform: APNs, Token: token}}
		if f := faultsOf(t, n.Validate()); len(f) != 1 || !strings.Contains(f[0].Problem, holds) {
			t.Errorf("APNs: %s: %v, want %q", token, f, holds)
		}
	}
}
