package push

import (
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// MaxEndpointBytes bounds the endpoint of a Web Push subscription.
const MaxEndpointBytes = 2048

// Keys are the keys of a browser's Web Push subscription, as its toJSON returns them: base64url
// or base64, with or without padding. They are secret, as the endpoint is.
type Keys struct {
	// P256DH is the browser's public key for the encryption of payloads: an uncompressed
	// point of the curve P-256, 65 bytes.
	P256DH string `json:"p256dh"`
	// Auth is the secret that the browser shares with senders: 16 bytes.
	Auth string `json:"auth"`
}

const authBytes = 16

var (
	errP256DH = errors.New("must be base64url of an uncompressed point of P-256, 65 bytes")
	errAuth   = errors.New("must be base64url of 16 bytes")
)

// PublicKey returns P256DH. The error does not contain the key.
func (k *Keys) PublicKey() (*ecdh.PublicKey, error) {
	raw, ok := decodeKey(k.P256DH)
	if !ok {
		return nil, errP256DH
	}
	key, err := ecdh.P256().NewPublicKey(raw)
	if err != nil {
		return nil, errP256DH
	}
	return key, nil
}

// Secret returns Auth. The error does not contain the secret.
func (k *Keys) Secret() ([]byte, error) {
	raw, ok := decodeKey(k.Auth)
	if !ok || len(raw) != authBytes {
		return nil, errAuth
	}
	return raw, nil
}

// toURL turns base64 into base64url.
var toURL = strings.NewReplacer("+", "-", "/", "_")

// decodeKey reads base64url or base64. It rejects texts longer than a padded key.
func decodeKey(s string) ([]byte, bool) {
	const longest = 88
	if len(s) > longest || !isPrintable(s, '!') { // the decoder skips the ends of lines
		return nil, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(toURL.Replace(strings.TrimRight(s, "=")))
	return raw, err == nil
}

// check adds the faults of a target's keys; at returns the pointer of a field of the target.
func (k *Keys) check(at func(string) string, f *Faults) {
	_, badKey := k.PublicKey()
	_, badAuth := k.Secret()
	for _, key := range []struct {
		field, value string
		err          error
	}{{"/keys/p256dh", k.P256DH, badKey}, {"/keys/auth", k.Auth, badAuth}} {
		switch {
		case key.value == "":
			f.Add(at(key.field), "is missing")
		case key.err != nil:
			f.Add(at(key.field), "%v", key.err)
		}
	}
}

// Endpoint reads the endpoint of a Web Push subscription: https, port 443, a host name, no user and no
// fragment. The URL's host is in lower case, without port and final dot, as HostAmong expects it. The
// error contains nothing of the endpoint.
func Endpoint(text string) (*url.URL, error) {
	if len(text) > MaxEndpointBytes {
		return nil, fmt.Errorf("is %d bytes, at most %d are taken", len(text), MaxEndpointBytes)
	}
	u, err := url.Parse(text)
	if err != nil || !isPrintable(text, '!') || u.Scheme != "https" || u.Opaque != "" || u.User != nil || strings.Contains(text, "#") {
		return nil, errEndpoint
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if !IsHostName(host) || u.Port() != "443" && strings.Contains(u.Host, ":") {
		return nil, errEndpoint
	}
	u.Host = host
	return u, nil
}

var errEndpoint = errors.New("must be the endpoint of a subscription: an https URL at port 443 of a host by its name, without a user and a fragment")

// endpointFault returns the fault of an endpoint, the device token of Web Push, "" for none.
func endpointFault(text string) string {
	if _, err := Endpoint(text); err != nil {
		return err.Error()
	}
	return ""
}

// sameEndpoint returns the endpoint with its host in canonical form.
func sameEndpoint(text string) string {
	u, err := Endpoint(text)
	if err != nil {
		return text
	}
	return u.String()
}
