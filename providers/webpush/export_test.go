package webpush

import (
	"net"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// NewDialing is New with the given dial function.
func NewDialing(cfg Config, dial providers.DialFunc) (*Sender, error) {
	return newSender(cfg, dial, dial)
}

// StrangerDialer is New's dial function for unknown hosts, with a given port and resolver.
var StrangerDialer = strangerDialer

// GuardedDialer is New's dialer, with the given port.
func GuardedDialer(port uint16) *net.Dialer { return guardedDialer(port) }

// Sealed returns the body and the header field Authorization of a push.
func Sealed(key *Key, subject string, t push.Target, payload []byte) (body []byte, authorization, origin string, err error) {
	at, err := parseEndpoint(t.Token)
	if err != nil {
		return nil, "", "", err
	}
	to, err := parseReceiver(t.Keys)
	if err != nil {
		return nil, "", "", err
	}
	if body, err = encrypt(payload, to); err != nil {
		return nil, "", "", err
	}
	signed, err := newTokens(key, subject).get(at.origin(), time.Now())
	if err != nil {
		return nil, "", "", err
	}
	return body, signed.authorization, at.origin(), nil
}

// AgeProofs moves the start of every proof's mismatches into the past.
func (s *Sender) AgeProofs(by time.Duration) {
	for _, at := range s.peers {
		at.proof.mu.Lock()
		at.proof.since = at.proof.since.Add(-by)
		at.proof.mu.Unlock()
	}
}
