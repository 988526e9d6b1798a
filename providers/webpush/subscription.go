package webpush

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/pushpace/pushpace/push"
)

// An endpoint is where a push service takes the messages for one subscription.
type endpoint struct {
	host string // in lower case, without a final dot
	url  *url.URL
}

// origin is the endpoint's, as a token names it. Source: RFC 8292, section 2.
func (e endpoint) origin() string { return "https://" + e.host }

// parseEndpoint reads an endpoint: https, at port 443, a host by its name, and nothing
// that hides another. Its errors name the host at most.
func parseEndpoint(text string) (endpoint, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > push.MaxEndpointBytes || strings.Trim(text, visible) != "":
		return endpoint{}, errors.New("the endpoint is not a URL")
	case u.Scheme != "https" || u.Opaque != "":
		return endpoint{}, errors.New("the endpoint is not an https URL")
	case u.User != nil:
		return endpoint{}, errors.New("the endpoint names a user")
	case strings.Contains(text, "#"):
		return endpoint{}, errors.New("the endpoint has a fragment")
	}
	host := push.EndpointHost(u)
	switch {
	case !isHostName(host):
		return endpoint{}, errors.New("the endpoint's host has no name")
	case u.Port() != "443" && strings.Contains(u.Host, ":"):
		return endpoint{}, fmt.Errorf("the endpoint is at another port of %s than 443", host)
	}
	u.Host = host
	return endpoint{host: host, url: u}, nil
}

// visible are the characters of ASCII that can be seen.
const visible = "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

// receiverOf is whom a message is encrypted for. Its error holds nothing of the keys.
func receiverOf(k *push.Keys) (receiver, error) {
	if k == nil {
		return receiver{}, errors.New("the target has no keys")
	}
	// A point off the curve, which PublicKey refuses, would tell of the private key. Source:
	// RFC 8291, section 7.
	public, err := k.PublicKey()
	if err != nil {
		return receiver{}, fmt.Errorf("p256dh %w", err)
	}
	auth, err := k.Secret()
	if err != nil {
		return receiver{}, fmt.Errorf("auth %w", err)
	}
	return receiver{public: public, auth: auth}, nil
}
