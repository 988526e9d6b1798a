package webpush

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"testing"
)

func TestParseKeyReadsAllFormats(t *testing.T) {
	t.Parallel()
	// The key pair of RFC 8291, appendix A, in each form.
	const public = "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8"
	raw, err := ParseKey([]byte("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw\n"))
	must(t, err)
	text, err := raw.PEM()
	must(t, err)
	scalar := "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
	bytes, err := base64.RawURLEncoding.DecodeString(scalar)
	must(t, err)
	point, err := raw.private.PublicKey.Bytes()
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(raw.private)
	must(t, err)
	inPEM := func(kind string) func(der []byte, err error) string {
		return func(der []byte, err error) string {
			must(t, err)
			return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
		}
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	sec1 := inPEM("EC PRIVATE KEY")(x509.MarshalECPrivateKey(raw.private))
	x, y := base64.RawURLEncoding.EncodeToString(point[1:33]), base64.RawURLEncoding.EncodeToString(point[33:])
	jwk := `{"kty":"EC","crv":"P-256","d":"` + scalar + `"`
	for name, form := range map[string]string{
		"raw": scalar, "padded": scalar + "=", "base64": base64.StdEncoding.EncodeToString(bytes), "base64 without padding": base64.RawStdEncoding.EncodeToString(bytes),
		"hexadecimal": hex.EncodeToString(bytes), "hexadecimal in capitals": strings.ToUpper(hex.EncodeToString(bytes)),
		"with white space": " \t\r\n" + scalar + "=\r\n\n", "in quotes": `"` + scalar + "\"\n", "in single quotes": "'" + scalar + "'", "two lines": scalar[:20] + "\n" + scalar[20:],
		"PKCS#8": string(text), "PKCS#8 with CRLF": "\r\n" + strings.ReplaceAll(string(text), "\n", "\r\n"), "SEC 1": sec1, "SEC 1 with parameters": parametersPEM + sec1,
		"DER": string(der), "DER in base64": base64.StdEncoding.EncodeToString(der),
		"JWK": jwk + `,"x":"` + x + `","y":"` + y + `","ext":true,"key_ops":["sign"]}` + "\n", "JWK without a point": jwk + "}",
		"web-push's JSON": `{"publicKey":"` + public + `","privateKey":"` + scalar + `"}`,
	} {
		key, err := ParseKey([]byte(form))
		if err != nil || key.Public() != public {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct{ form, want string }{
		"empty": {"", "want PEM"}, "text": {"hello, world", "want PEM"},
		"the public key": {public, "holds a public key"}, "the public key in base64": {base64.StdEncoding.EncodeToString(point), "holds a public key"},
		"the public key in hexadecimal": {hex.EncodeToString(point), "holds a public key"}, "the public key, compressed": {base64.RawURLEncoding.EncodeToString(append([]byte{2}, point[1:33]...)), "holds a public key"},
		"the public JWK": {`{"kty":"EC","crv":"P-256","x":"` + x + `","y":"` + y + `"}`, "holds a public key"}, "the public key in PEM": {inPEM("PUBLIC KEY")(x509.MarshalPKIXPublicKey(&raw.private.PublicKey)), "holds a public key"},
		"one character less": {scalar[:42], "holds 31 bytes"}, "both keys": {public + "\n" + scalar, "bytes in base64, and a private key has 32"},
		"zero": {strings.Repeat("A", 43), "no private key of P-256"}, "a scalar that is too large": {strings.Repeat("_", 42) + "8", "no private key of P-256"},
		"a JWK of another key": {jwk + `,"x":"` + y + `","y":"` + x + `"}`, "not the private key's"}, "a JWK of another curve": {`{"kty":"EC","crv":"P-384","d":"AA"}`, "want PEM"},
		"JSON": {`{"type":"service_account"}`, "want PEM"}, "broken JSON": {`{"kty":`, "want PEM"},
		"RSA": {inPEM("PRIVATE KEY")(x509.MarshalPKCS8PrivateKey(rsaKey)), "want PEM"}, "P-384": {inPEM("PRIVATE KEY")(x509.MarshalPKCS8PrivateKey(p384)), "want PEM"}, "broken PEM": {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "want PEM"},
	} {
		_, err := ParseKey([]byte(c.form))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		} else if strings.Contains(err.Error(), scalar[:10]) {
			t.Errorf("%s: the error holds the key: %v", name, err)
		}
	}
}

// parametersPEM is the block that openssl ecparam writes before a key.
const parametersPEM = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
