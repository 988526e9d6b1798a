package webpush

import (
	"net"
	"net/http"

	"github.com/pushpace/pushpace/providers"
)

// NewDialing is New with another way to connect.
func NewDialing(cfg Config, dial providers.DialFunc) (*Sender, error) { return newSender(cfg, dial) }

// Guarded is the dialer that New uses, for another port.
func Guarded(port uint16) *net.Dialer { return guarded(port) }

// Transports are those that a Sender has.
func (s *Sender) Transports() []*http.Transport {
	return []*http.Transport{s.transport, s.strangersTransport}
}
