package main

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	webpushgo "github.com/SherClockHolmes/webpush-go"
	"github.com/golang-jwt/jwt/v5"

	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

// webPushTTL is what every contestant asks for, in seconds.
const webPushTTL = 28 * 24 * 60 * 60

// subscribed are browsers' subscriptions by endpoint.
type subscribed map[string]push.Target

func (s subscribed) target(endpoint string) push.Target { return s[endpoint] }

// subscriptions answers those of the devices at a push service, whose names begin so.
func subscriptions(service push.Platform, name string) subscribed {
	all := make(subscribed, devices)
	for i := range devices {
		target := webpushtest.Subscription(webpushtest.Endpoint(service, fmt.Sprintf("%s-%d", name, i)))
		all[target.Token] = target
	}
	return all
}

// bareWebPush is a loop over the standard library: each push is encrypted as ours is, and
// one token of VAPID is for all.
func bareWebPush(c webpush.Config, to subscribed) (contestant, error) {
	key, err := vapidKey(c)
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	client, err := standInClient(c)
	if err != nil {
		return nil, err
	}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"aud": "https://fcm.googleapis.com", "exp": time.Now().Add(12 * time.Hour).Unix(), "sub": c.Subject,
	}).SignedString(key)
	if err != nil {
		return nil, err
	}
	authorization := "vapid t=" + signed + ", k=" + base64.RawURLEncoding.EncodeToString(public)
	return func(ctx context.Context, endpoint string, i int64) error {
		payload, err := webPushPayload(i)
		if err != nil {
			return err
		}
		body, err := encrypt(payload, to[endpoint].Keys)
		if err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", authorization)
		r.Header.Set("Content-Encoding", "aes128gcm")
		r.Header.Set("Content-Type", "application/octet-stream")
		r.Header.Set("TTL", fmt.Sprint(webPushTTL))
		r.Header.Set("Urgency", "high")
		return taken(client.Do(r))
	}, nil
}

// webPushGo is a loop over webpush-go, whose requests share a client.
func webPushGo(c webpush.Config, to subscribed) (contestant, error) {
	key, err := vapidKey(c)
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	private, err := key.Bytes()
	if err != nil {
		return nil, err
	}
	client, err := standInClient(c)
	if err != nil {
		return nil, err
	}
	options := &webpushgo.Options{
		HTTPClient: client, Subscriber: strings.TrimPrefix(c.Subject, "mailto:"), TTL: webPushTTL, Urgency: webpushgo.UrgencyHigh,
		VAPIDPublicKey: base64.RawURLEncoding.EncodeToString(public), VAPIDPrivateKey: base64.RawURLEncoding.EncodeToString(private),
	}
	return func(ctx context.Context, endpoint string, i int64) error {
		payload, err := webPushPayload(i)
		if err != nil {
			return err
		}
		keys := to[endpoint].Keys
		return taken(webpushgo.SendNotificationWithContext(ctx, payload, &webpushgo.Subscription{
			Endpoint: endpoint, Keys: webpushgo.Keys{P256dh: keys.P256DH, Auth: keys.Auth},
		}, options))
	}, nil
}

// webPushPayload composes the payload that ours has.
func webPushPayload(i int64) ([]byte, error) {
	type notification struct {
		Title string            `json:"title"`
		Body  string            `json:"body"`
		Tag   string            `json:"tag"`
		Data  map[string]string `json:"data"`
	}
	return json.Marshal(map[string]notification{
		"notification": {Title: benchTitle, Body: benchBody, Tag: id(i), Data: map[string]string{push.IDKey: id(i)}},
	})
}

// taken is an error unless the answer says that the push is taken.
func taken(response *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusCreated {
		return errors.New(response.Status)
	}
	return nil
}

// encrypt answers a body in aes128gcm. Source: RFC 8291, section 3.4.
func encrypt(plaintext []byte, to *push.Keys) ([]byte, error) {
	point, err := base64.RawURLEncoding.DecodeString(to.P256DH)
	if err != nil {
		return nil, err
	}
	auth, err := base64.RawURLEncoding.DecodeString(to.Auth)
	if err != nil {
		return nil, err
	}
	receiver, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return nil, err
	}
	sender, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	shared, err := sender.ECDH(receiver)
	if err != nil {
		return nil, err
	}
	own := sender.PublicKey().Bytes()
	ikm, err := hkdf.Key(sha256.New, shared, auth, "WebPush: info\x00"+string(point)+string(own), sha256.Size)
	if err != nil {
		return nil, err
	}
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	secret, err := hkdf.Extract(sha256.New, ikm, salt)
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Expand(sha256.New, secret, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, err
	}
	nonce, err := hkdf.Expand(sha256.New, secret, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	body := binary.BigEndian.AppendUint32(salt, 4096)
	body = append(append(body, byte(len(own))), own...)
	return gcm.Seal(body, nonce, append(plaintext, 2), nil), nil // 2 ends the last record
}

// vapidKey reads the app's key.
func vapidKey(c webpush.Config) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(c.PrivateKeyFile)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s is no PEM", c.PrivateKeyFile)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds no key of ECDSA", c.PrivateKeyFile)
	}
	return private, nil
}

// standInClient answers a client that has the stand-in behind every endpoint, and as many
// connections to it as our sender has to one push service.
func standInClient(c webpush.Config) (*http.Client, error) {
	roots, err := readRoots(c.RootCAFile)
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at.Host)
		},
		TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: at.Hostname()},
		ForceAttemptHTTP2: true, MaxConnsPerHost: 4,
	}}, nil
}
