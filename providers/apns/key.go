package apns

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"fmt"
	"sync"
	"time"

	"github.com/sideshow/apns2/token"

	"github.com/pushpace/pushpace/internal/base/keyfile"
	"github.com/pushpace/pushpace/internal/base/textfile"
)

// A key is a .p8 key with its provider token. All Senders with the same key share its token: APNs
// limits how often the token of a key is updated.
type key struct {
	id    keyIdentity
	token *token.Token
}

var keys = struct {
	sync.Mutex
	byID map[keyIdentity]*key
}{byID: make(map[keyIdentity]*key)}

type keyIdentity struct{ keyID, teamID, publicKey string }

// loadKey returns the configured key.
func loadKey(c Config) (*key, error) {
	text, err := textfile.Read(c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("key_file: %w", err)
	}
	parsed, err := keyfile.Parse(c.KeyFile, text, "")
	if err != nil {
		return nil, fmt.Errorf("key_file: %s: %w", c.KeyFile, err)
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, fmt.Errorf("key_file: %s holds no P-256 key, as ES256 needs", c.KeyFile)
	}
	public, err := private.PublicKey.Bytes()
	if err != nil {
		return nil, fmt.Errorf("key_file: %w", err)
	}
	keys.Lock()
	defer keys.Unlock()
	id := keyIdentity{c.KeyID, c.TeamID, string(public)}
	k := keys.byID[id]
	if k == nil {
		k = &key{id: id, token: &token.Token{AuthKey: private, KeyID: c.KeyID, TeamID: c.TeamID}}
		keys.byID[id] = k
	}
	return k, nil
}

// refresh makes the next request create a new provider token, after APNs has refused bearer as
// expired. It returns false if bearer is so new that APNs would not accept a newer token.
func (k *key) refresh(bearer string, now time.Time) bool {
	k.token.Lock()
	defer k.token.Unlock()
	if k.token.Bearer != bearer {
		return true // another request has refreshed the token
	}
	if now.Sub(time.Unix(k.token.IssuedAt, 0)) < tokenUpdateInterval {
		return false
	}
	k.token.IssuedAt = 0
	return true
}
