package webpush_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// A nameServer answers each lookup of a name with the next list of addresses.
type nameServer struct {
	mu    sync.Mutex
	names map[string][][]string // by name, the addresses of each lookup; the last repeat
	asked map[string]int
}

// resolver returns a resolver that uses only s.
func (s *nameServer) resolver() *net.Resolver {
	s.asked = make(map[string]int)
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go s.serve(ours)
		return theirs, nil
	}}
}

// serve answers over one connection, as over TCP (RFC 1035, section 4.2.2).
func (s *nameServer) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		text := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, text); err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(text) != nil || len(m.Questions) != 1 {
			return
		}
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		for _, address := range s.lookUp(m.Questions[0]) {
			header := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 0}
			if address.Is4() {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: address.As4()}})
			} else {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: address.As16()}})
			}
		}
		answer, err := m.AppendPack(make([]byte, 2))
		if err != nil {
			return
		}
		binary.BigEndian.PutUint16(answer, uint16(len(answer)-2))
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// lookUp returns the addresses that answer the question.
func (s *nameServer) lookUp(q dnsmessage.Question) []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := q.Name.String() + q.Type.String()
	lookups := s.names[strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))]
	if len(lookups) == 0 {
		return nil
	}
	n := min(s.asked[key], len(lookups)-1)
	s.asked[key]++
	var found []netip.Addr
	for _, text := range lookups[n] {
		address := netip.MustParseAddr(text)
		if (q.Type == dnsmessage.TypeA) == address.Is4() && (q.Type == dnsmessage.TypeA || q.Type == dnsmessage.TypeAAAA) {
			found = append(found, address)
		}
	}
	return found
}
