package console

import (
	"strings"
	"testing"

	"github.com/pushpace/pushpace/push"
)

// A payload keeps its numbers, hides tokens, and escapes invisible characters.
func TestPayload(t *testing.T) {
	t.Parallel()
	n := toUser("one", "ada", "")
	n.Title, n.APNs = "a<b\u202e", []byte(`{"aps":{"x":10000000000000001.50}}`)
	p := payloadOf(n)
	contains(t, p.Text, "10000000000000001.50", `a<b\u202e`, "…a1b2c3")
	lacks(t, p.Text, secret[:20], "\u202e")
	for name, job := range map[string]string{
		"another version": `{"v":9,"notification":{"targets":[{"Token" : "` + secret + `"}]}}`,
		"cut off":         `{"targets":[{"token":"` + secret[:60],
		"no JSON":         "\x00\xff\U000e0001 token",
		"escaped":         `{"token":"a\"` + secret + `"}`,
		"FID":             `{"v":9,"notification":{"targets":[{"platform":"fcm","fid":"` + secret + `"}]}}`,
		"keys":            `{"v":9,"notification":{"targets":[{"keys":{"p256dh":"` + secret + `","Auth" :"` + secret + `"}}]}}`,
	} {
		p := payloadOfJob([]byte(job))
		lacks(t, p.Text, secret[:20], "\x00", "\xff", "\U000e0001")
		if p.Text == "" {
			t.Errorf("%s: nothing is shown", name)
		}
	}
	n.Targets[0] = push.Target{Platform: push.PlatformWebPush, Token: "https://example.com/" + secret, Keys: &push.Keys{P256DH: secret, Auth: secret}}
	lacks(t, payloadOf(n).Text, secret[:20], "example.com")
	if n.Targets[0].Keys == nil {
		t.Error("the notification itself has lost its keys")
	}
	n.Targets[0] = push.Target{Platform: push.FCM, FID: secret}
	contains(t, payloadOf(n).Text, `"fid": "…a1b2c3"`)
	lacks(t, payloadOf(n).Text, secret[:20], "token")
	long := payloadOfJob([]byte(strings.Repeat("é", maxPayload)))
	if len(long.Text) > maxPayload || int(long.More)+len(long.Text) != 2*maxPayload || strings.Contains(long.Text, `\u`) {
		t.Errorf("%d bytes are shown, %d left out", len(long.Text), long.More)
	}
	if p := payloadOfJob(nil); p.Text != "" {
		t.Error(p)
	}
}
