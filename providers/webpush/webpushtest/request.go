package webpushtest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/push"
)

// A Push is a message that passed the checks, decrypted.
type Push struct {
	// Endpoint is the subscription's endpoint.
	Endpoint string
	// Header is the request's header.
	Header http.Header
	// Payload is the plaintext.
	Payload []byte
}

// A request is a push before the checks.
type request struct {
	service  push.Platform
	host     string
	endpoint string
	name     string
	method   string
	header   http.Header
	body     []byte
	key      string // the sender's public key
	payload  []byte
}

var (
	digits = regexp.MustCompile(`^[0-9]+$`)
	topics = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
)

// check checks a request, and returns its refusal; nil if it is valid.
func (s *Server) check(r *request, now time.Time) *refusal {
	if r.method != http.MethodPost {
		return &refusal{status: http.StatusMethodNotAllowed}
	}
	if len(r.body) > maxBody {
		return &refusal{status: http.StatusRequestEntityTooLarge}
	}
	if refused := s.checkSender(r, now); refused != nil {
		return refused
	}
	if refused := r.checkHeader(); refused != nil {
		return refused
	}
	var err error
	if r.payload, err = s.receiver(r.endpoint).decrypt(r.body); err != nil {
		return badRequest(110, err.Error())
	}
	if !json.Valid(r.payload) {
		return badRequest(110, "the payload is not JSON")
	}
	for _, part := range [][]byte{r.body[:saltSize], r.body[saltSize+5 : headerSize]} {
		if again, _ := s.used.ContainsOrAdd(string(part), struct{}{}); again {
			return badRequest(110, "a salt or a key is used again")
		}
	}
	return nil
}

// checkSender refuses a request of an unknown sender, or of a sender that is not the
// subscription's. Source: RFC 8292, section 4.2.
func (s *Server) checkSender(r *request, now time.Time) *refusal {
	values := r.header.Values("Authorization")
	if len(values) != 1 {
		return unauthorized(r.service, "Authorization is missing")
	}
	shown, err := s.tokens.read(r.service, values[0])
	if err == nil {
		err = shown.check(r.service, r.host, now)
	}
	if err != nil {
		return unauthorized(r.service, err.Error())
	}
	if r.key = shown.key; !slices.Contains(s.keys, r.key) {
		return scriptedRefusal(r.service, standin.Answer{Reason: string(webpush.VapidMismatch)})
	}
	return nil
}

// checkHeader refuses header fields that the services refuse. Source: RFC 8030, sections 5.2 to
// 5.4; RFC 8291, section 4.
func (r *request) checkHeader() *refusal {
	only := func(field string) string {
		if values := r.header.Values(field); len(values) == 1 {
			return values[0]
		}
		return ""
	}
	ttl, urgency, topic := only("TTL"), only("Urgency"), only("Topic")
	seconds, err := strconv.ParseInt(ttl, 10, 64)
	switch {
	case !digits.MatchString(ttl), err == nil && seconds == 0 && (r.service == push.WebPushApple || r.service == push.WebPushWindows):
		return badRequest(112, "BadTtl")
	case len(r.header.Values("Urgency")) > 0 && !slices.Contains([]string{"very-low", "low", "normal", "high"}, urgency):
		return badRequest(111, "BadUrgency")
	case len(r.header.Values("Topic")) > 0 && (!topics.MatchString(topic) || r.service == push.WebPushApple && len(topic)%4 == 1):
		return badRequest(113, "BadWebPushTopic")
	case only("Content-Encoding") != "aes128gcm":
		return badRequest(110, "Content-Encoding is not aes128gcm")
	case strings.Contains(r.header.Get("Crypto-Key"), "dh="), len(r.header.Values("Encryption")) > 0:
		return badRequest(110, "there are keys outside the body")
	case r.service == push.WebPushWindows && only("X-WNS-Cache-Policy") != "cache":
		return badRequest(0, "the cache policy does not fit TTL")
	}
	return nil
}
