package webpush

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
)

func TestKeysAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	// The key pair of RFC 8291, appendix A, in each form.
	const public = "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8"
	raw, err := ParseKey([]byte("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw\n"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := raw.PEM()
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range map[string]string{
		"raw":    "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw",
		"PKCS#8": string(text), "SEC 1": sec1(t, raw.private), "SEC 1 with parameters": parametersPEM + sec1(t, raw.private),
	} {
		key, err := ParseKey([]byte(form))
		if err != nil || key.Public() != public {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, form := range map[string]string{
		"empty": "", "the public key": public, "zero": strings.Repeat("A", 43), "a scalar that is too large": strings.Repeat("_", 42) + "8",
		"base64 with + and /": "yfWPiYE+n46HLnH0KqZOF1fJJU3MYrct3AELtAQ+oRw", "padded": "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw=",
		"two lines": "yfWPiYE-n46HLnH0KqZO\nF1fJJU3MYrct3AELtAQ-oRw", "RSA": rsaPEM(t), "P-384": p384PEM(t), "broken PEM": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
	} {
		_, err := ParseKey([]byte(form))
		if err == nil {
			t.Errorf("%s is taken", name)
		} else if err != errNoKey {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// parametersPEM is what openssl ecparam writes before a key.
const parametersPEM = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"

func sec1(t *testing.T, private *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func pkcs8(t *testing.T, private crypto.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func rsaPEM(t *testing.T) string {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return pkcs8(t, private)
}

func p384PEM(t *testing.T) string {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return pkcs8(t, private)
}
