package webpush

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/push"
)

func TestEndpoints(t *testing.T) {
	t.Parallel()
	for text, host := range map[string]string{
		"https://fcm.googleapis.com/wp/abc:APA91b":               "fcm.googleapis.com",
		"https://FCM.GoogleAPIs.com./wp/abc":                     "fcm.googleapis.com",
		"https://web.push.apple.com:443/QGuQyavXutnMH":           "web.push.apple.com",
		"https://wns2-par02p.notify.windows.com/w/?token=BQY%3d": "wns2-par02p.notify.windows.com",
		"https://push.example.net?x=1":                           "push.example.net",
	} {
		e, err := parseEndpoint(text)
		if err != nil || e.host != host || e.origin() != "https://"+host || e.url.Host != host {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
		if _, after, _ := strings.Cut(text[len("https://"):], "/"); after != "" && e.url.RequestURI() != "/"+after {
			t.Errorf("%s becomes %s", text, e.url.RequestURI())
		}
	}
	for _, text := range []string{
		"", "x", "http://fcm.googleapis.com/x", "https:fcm.googleapis.com", "https:///x", "//fcm.googleapis.com/x",
		"https://fcm.googleapis.com:8443/x", "https://fcm.googleapis.com:/x", "https://fcm.googleapis.com@127.0.0.1/x", "https://u:p@fcm.googleapis.com/x",
		"https://fcm.googleapis.com/x#y", "https://fcm.googleapis.com/x#", "https://127.0.0.1/x", "https://127.1/x", "https://0x7f.1/x", "https://2130706433/x",
		"https://[::1]/x", "https://[::ffff:127.0.0.1]/x", "https://localhost/x", "https://fcm..com/x", "https://.com/x",
		"https://fcm.googleapis.com/a b", "https://fcm.googleapis.com/…", "https://fcm.googleapis.com/\x00", "https://fcm.googleapis.com\\@a.example/x",
		"https://fcm.googleapis.com/" + strings.Repeat("a", push.MaxEndpointBytes), "https://f%63m.googleapis.com/x", "https://" + strings.Repeat("a", 64) + ".com/x",
	} {
		e, err := parseEndpoint(text)
		if err == nil {
			t.Errorf("%q is taken as %s", text, e.url)
		} else if len(text) > 10 && strings.Contains(err.Error(), text) {
			t.Errorf("the error holds the endpoint: %v", err)
		}
	}
}

// The host is compared by its labels, and never as a text within the URL.
func TestHosts(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]push.Platform{
		"fcm.googleapis.com": push.WebPushGoogle, "jmt17.google.com": push.WebPushGoogle, "android.googleapis.com": push.WebPushGoogle,
		"updates.push.services.mozilla.com": push.WebPushMozilla, "web.push.apple.com": push.WebPushApple, "a.b.push.apple.com": push.WebPushApple, "db5p.notify.windows.com": push.WebPushWindows,
		"push.apple.com": push.WebPushOther, "evilpush.apple.com": push.WebPushOther, "notify.windows.com": push.WebPushOther, "fcm.googleapis.com.example": push.WebPushOther, "xfcm.googleapis.com": push.WebPushOther,
		"web.push.apple.com.example": push.WebPushOther,
	} {
		if got := (push.Target{Platform: push.PlatformWebPush, Token: "https://" + name + "/x"}).Service(); got != want {
			t.Errorf("%s is %s's, want %s", name, got, want)
		}
		if allowed := push.HostAmong(push.WebPushHosts(), name); allowed != (want != push.WebPushOther) {
			t.Errorf("%s is allowed: %v", name, allowed)
		}
		if !push.HostAmong([]string{push.AnyHost}, name) {
			t.Errorf("%s is not any host", name)
		}
	}
}

func TestKeysOfASubscription(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	point := r.public.Bytes()
	enc := base64.RawURLEncoding.EncodeToString
	auth := enc(r.auth)
	for name, keys := range map[string]*push.Keys{
		"base64url": {P256DH: enc(point), Auth: auth}, "padded": {P256DH: base64.URLEncoding.EncodeToString(point), Auth: auth + "=="},
		"base64": {P256DH: base64.StdEncoding.EncodeToString(point), Auth: base64.StdEncoding.EncodeToString(r.auth)},
	} {
		got, err := receiverOf(keys)
		if err != nil || !bytes.Equal(got.public.Bytes(), point) || !bytes.Equal(got.auth, r.auth) {
			t.Errorf("%s: %v", name, err)
		}
	}
	off := bytes.Clone(point)
	off[64] ^= 1
	for name, keys := range map[string]*push.Keys{
		"missing": nil, "empty": {}, "64 bytes": {P256DH: enc(point[:64]), Auth: auth}, "compressed": {P256DH: enc(append([]byte{2}, point[1:33]...)), Auth: auth},
		"off the curve": {P256DH: enc(off), Auth: auth}, "all zero": {P256DH: enc(make([]byte, 65)), Auth: auth}, "infinity": {P256DH: enc([]byte{0}), Auth: auth},
		"auth of 15": {P256DH: enc(point), Auth: enc(r.auth[:15])}, "auth of 17": {P256DH: enc(point), Auth: enc(append(bytes.Clone(r.auth), 1))},
		"no base64": {P256DH: "…", Auth: auth}, "no base64 in auth": {P256DH: enc(point), Auth: "…"}, "two lines": {P256DH: enc(point), Auth: auth[:4] + "\n" + auth[4:]},
	} {
		if _, err := receiverOf(keys); err == nil {
			t.Errorf("%s is taken", name)
		} else if keys != nil && len(keys.P256DH) > 8 && strings.Contains(err.Error(), keys.P256DH) {
			t.Errorf("%s: the error holds a key", name)
		}
	}
}

func FuzzEndpoint(f *testing.F) {
	for _, text := range []string{"https://fcm.googleapis.com/wp/a", "https://a@b", "https://[::1]", "https://a.b:443/%2e?x#y"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseEndpoint(text)
		if err == nil && (e.url.Scheme != "https" || e.url.Host != e.host || !isHostName(e.host) || e.url.User != nil || e.url.Fragment != "") {
			t.Errorf("%q becomes %#v", text, e.url)
		}
	})
}
