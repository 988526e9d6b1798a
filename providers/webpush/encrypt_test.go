package webpush

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/push"
)

func unbase64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	must(t, err)
	return b
}

func wantBytes(t *testing.T, name string, got []byte, want string) {
	t.Helper()
	if s := base64.RawURLEncoding.EncodeToString(got); s != want {
		t.Errorf("%s is %s, want %s", name, s, want)
	}
}

// The example of RFC 8291, section 5, with the intermediate values of its appendix A.
func TestEncryptionMatchesRFC8291(t *testing.T) {
	t.Parallel()
	sender, err := ecdh.P256().NewPrivateKey(unbase64(t, "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
	must(t, err)
	wantBytes(t, "as_public", sender.PublicKey().Bytes(), "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8")
	public, err := ecdh.P256().NewPublicKey(unbase64(t, "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"))
	must(t, err)
	to := receiver{public: public, auth: unbase64(t, "BTBZMqHH6r4Tts7J_aSIgg")}
	shared, err := sender.ECDH(public)
	must(t, err)
	wantBytes(t, "ecdh_secret", shared, "kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs")
	ikm, err := keyingMaterial(to, sender)
	must(t, err)
	wantBytes(t, "IKM", ikm, "S4lYMb_L0FxCeq0WhDx813KgSYqU26kOyzWUdsXYyrg")
	salt := unbase64(t, "DGv6ra1nlYgDCS1FRnbzlw")
	secret, err := hkdf.Extract(sha256.New, ikm, salt)
	must(t, err)
	wantBytes(t, "PRK", secret, "09_eUZGrsvxChDCGRCdkLiDXrReGOEVeSCdCcPBSJSc")
	body, err := seal([]byte("When I grow up, I want to be a watermelon"), to, sender, salt)
	must(t, err)
	wantBytes(t, "the body", body, "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_"+
		"yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN")
	if len(body) != 144 {
		t.Errorf("%d bytes, want 144", len(body))
	}
}

func newReceiver(t testing.TB) receiver {
	t.Helper()
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	must(t, err)
	return receiver{public: private.PublicKey(), auth: bytes.Repeat([]byte{7}, 16)}
}

func TestMessagesHaveDifferentKeysAndSalts(t *testing.T) {
	t.Parallel()
	to := newReceiver(t)
	seen := map[string]bool{}
	for range 100 {
		body, err := encrypt([]byte("x"), to)
		must(t, err)
		salt, key := string(body[:saltSize]), string(body[saltSize+5:headerSize])
		if seen[salt] || seen[key] {
			t.Fatal("a salt or a key is used twice")
		}
		seen[salt], seen[key] = true, true
	}
}

func TestLongestPayloadFillsRecord(t *testing.T) {
	t.Parallel()
	to := newReceiver(t)
	body, err := encrypt([]byte(strings.Repeat("x", push.MaxWebPushPayload)), to)
	if err != nil || len(body) != recordSize {
		t.Errorf("%d bytes (%v), want %d", len(body), err, recordSize)
	}
	if _, err := encrypt([]byte(strings.Repeat("x", push.MaxWebPushPayload+1)), to); err == nil {
		t.Error("a byte more is taken")
	}
}
