package webpush

import (
	"testing"

	"github.com/pushpace/pushpace/push"
)

// All of a push but its way: encryption, the token, the header.
func BenchmarkRequest(b *testing.B) {
	key, err := GenerateKey()
	if err != nil {
		b.Fatal(err)
	}
	at, err := parseEndpoint("https://fcm.googleapis.com/wp/x")
	if err != nil {
		b.Fatal(err)
	}
	s := &Sender{tokens: newTokens(key, "mailto:push@example.com")}
	to := subscription{endpoint: at, receiver: newReceiver(b), service: push.WebPushGoogle}
	message := push.WebPushMessage{Payload: make([]byte, 300), TTL: 60, Urgency: "high"}
	b.ReportAllocs()
	for b.Loop() {
		_, signed, failed := s.prepare(to, message)
		if failed != nil {
			b.Fatal(failed.Err)
		}
		s.request(b.Context(), to, message, signed)
	}
}
