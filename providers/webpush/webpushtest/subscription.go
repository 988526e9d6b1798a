package webpushtest

import (
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"github.com/pushpace/pushpace/push"
)

// Endpoint returns an endpoint in the service's format, with name in place of a browser's token:
// letters, digits, "-" and "_". standin.ByToken reads the name as it reads a token.
func Endpoint(service push.Platform, name string) string {
	switch service {
	case push.WebPushGoogle:
		return "https://fcm.googleapis.com/wp/" + name
	case push.WebPushMozilla:
		return "https://updates.push.services.mozilla.com/wpush/v2/" + name
	case push.WebPushApple:
		return "https://web.push.apple.com/" + name
	case push.WebPushWindows:
		return "https://wns2-par02p.notify.windows.com/w/?token=" + name
	}
	return "https://push.example.net/" + name
}

// Subscription returns the target of a browser subscribed at the endpoint. Its keys derive from
// the endpoint, so that every process can create it and every Server can decrypt its messages.
func Subscription(endpoint string) push.Target {
	r := receiverAt(endpoint)
	return push.Target{Platform: push.PlatformWebPush, Token: endpoint, Keys: &push.Keys{
		P256DH: base64.RawURLEncoding.EncodeToString(r.private.PublicKey().Bytes()),
		Auth:   base64.RawURLEncoding.EncodeToString(r.auth),
	}}
}

// A receiver is a browser's side of a subscription.
type receiver struct {
	private *ecdh.PrivateKey
	auth    []byte
}

// receiverAt returns the receiver at an endpoint.
func receiverAt(endpoint string) receiver {
	auth := sha256.Sum256([]byte("pushpace stand-in auth " + endpoint))
	for i := 0; ; i++ { // one hash in 2³² is no valid scalar
		scalar := sha256.Sum256(fmt.Appendf(nil, "pushpace stand-in key %d %s", i, endpoint))
		if private, err := ecdh.P256().NewPrivateKey(scalar[:]); err == nil {
			return receiver{private: private, auth: auth[:16]}
		}
	}
}

// nameIn returns the name in an endpoint's URL: the parameter token of WNS, or else the last part of
// the path.
func nameIn(u *url.URL) string {
	if token := u.Query().Get("token"); token != "" {
		return token
	}
	return u.Path[strings.LastIndexByte(u.Path, '/')+1:]
}
