package webpush

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/push"
)

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
