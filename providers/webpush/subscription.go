package webpush

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/pushpace/pushpace/push"
)

// An endpoint is the URL for messages to one subscription.
type endpoint struct {
	host string // in lower case, without a final dot
	url  *url.URL
}

// origin returns the endpoint's origin in the format of a token. Source: RFC 8292, section 2.
func (e endpoint) origin() string { return "https://" + e.host }

// parseEndpoint parses an endpoint: see push.Endpoint.
func parseEndpoint(text string) (endpoint, error) {
	u, err := push.Endpoint(text)
	if err != nil {
		return endpoint{}, fmt.Errorf("the token %w", err)
	}
	return endpoint{host: u.Host, url: u}, nil
}

// parseReceiver parses a browser's keys. Its error contains nothing of the keys.
func parseReceiver(k *push.Keys) (receiver, error) {
	if k == nil {
		return receiver{}, errors.New("the target has no keys")
	}
	// A point off the curve would reveal bits of the private key; PublicKey refuses it. Source:
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
