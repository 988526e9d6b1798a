package webpush

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/internal/base/keyfile"
	"github.com/pushpace/pushpace/internal/base/textfile"
)

// A Key is the key pair that identifies an app at the push services (RFC 8292). A subscription is
// bound for life to the key that it was made with.
type Key struct {
	private *ecdsa.PrivateKey
	public  string
}

// GenerateKey returns a new key.
func GenerateKey() (*Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return newKey(private)
}

// maxKeyFile bounds the bytes read of a key file.
const maxKeyFile = 64 << 10

// ReadKey reads the key in a file, as ParseKey does. Its errors name the file.
func ReadKey(file string) (*Key, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err == nil {
		text, err = textfile.Decode(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	k, err := parseKey(file, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return k, nil
}

// keyForms lists the formats that ParseKey accepts.
const keyForms = "want PEM (PKCS#8 or SEC 1), a JWK, or the 32 bytes that the library web-push calls the private key, in base64url"

// errNoKey is the error for a text in none of the known formats.
var errNoKey = errors.New("holds no P-256 private key: " + keyForms)

const (
	scalarBytes = 32 // of a private key
	pointBytes  = 65 // of a public key
)

// ParseKey parses a private key: PEM (PKCS#8 or SEC 1), a JWK, the JSON that the library web-push
// prints, or its scalar of 32 bytes in base64url, base64 or hexadecimal. It ignores white space
// and quotes around the key. Its errors contain nothing of the text.
func ParseKey(text []byte) (*Key, error) { return parseKey("FILE", text) }

// parseKey parses as ParseKey does. Commands in its errors name the given file.
func parseKey(file string, text []byte) (*Key, error) {
	trimmed := strings.TrimSpace(string(text))
	if n := len(trimmed); n > 1 && (trimmed[0] == '"' || trimmed[0] == '\'') && trimmed[0] == trimmed[n-1] {
		trimmed = strings.TrimSpace(trimmed[1 : n-1])
	}
	switch {
	case strings.HasPrefix(trimmed, "{"):
		return parseJSON([]byte(trimmed))
	case strings.Contains(trimmed, "-----BEGIN"):
		return parsePEM(file, []byte(trimmed))
	}
	if raw, err := decode(trimmed); err == nil {
		return parseBytes(file, raw)
	}
	return parsePEM(file, text) // DER, or no key
}

// decode decodes hexadecimal, base64url or base64, with or without padding.
func decode(text string) ([]byte, error) {
	if raw, err := hex.DecodeString(text); err == nil && (len(raw) == scalarBytes || len(raw) == pointBytes) {
		return raw, nil
	}
	return base64.RawURLEncoding.DecodeString(strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(text, "=")))
}

// parseBytes parses a scalar, or DER.
func parseBytes(file string, raw []byte) (*Key, error) {
	switch {
	case len(raw) == scalarBytes:
		private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
		if err != nil {
			return nil, errors.New("holds 32 bytes that are no private key of P-256")
		}
		return newKey(private)
	case len(raw) == pointBytes && raw[0] == 4, len(raw) == 1+scalarBytes && (raw[0] == 2 || raw[0] == 3):
		return nil, errors.New("holds a public key: want the private key of the same pair")
	case len(raw) > pointBytes && raw[0] == 0x30: // a sequence of DER
		return parsePEM(file, raw)
	}
	return nil, fmt.Errorf("holds %d bytes in base64, and a private key has %d: %s", len(raw), scalarBytes, keyForms)
}

// parsePEM parses PEM or DER.
func parsePEM(file string, text []byte) (*Key, error) {
	key, err := keyfile.Parse(file, text, "")
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, keyForms)
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errNoKey
	}
	return newKey(private)
}

// parseJSON parses a JWK (RFC 7517), or the pair that `web-push generate-vapid-keys --json` prints.
func parseJSON(text []byte) (*Key, error) {
	var form struct {
		Type       string `json:"kty"`
		Curve      string `json:"crv"`
		D          string `json:"d"`
		X          string `json:"x"`
		Y          string `json:"y"`
		PrivateKey string `json:"privateKey"`
		PublicKey  string `json:"publicKey"`
	}
	if err := json.Unmarshal(text, &form); err != nil {
		return nil, errNoKey
	}
	switch {
	case form.Type == "" && form.PrivateKey != "":
		return parsePair(form.PrivateKey, form.PublicKey)
	case form.Type != "EC" || form.Curve != "P-256":
		return nil, errNoKey
	case form.D == "":
		return nil, errors.New("holds a public key, a JWK without d: want the private key of the same pair")
	case form.X == "" && form.Y == "":
		return parsePair(form.D, "")
	}
	x, errX := decode(form.X)
	y, errY := decode(form.Y)
	if errX != nil || errY != nil {
		return nil, errNoKey
	}
	return parsePair(form.D, base64.RawURLEncoding.EncodeToString(slices.Concat([]byte{4}, x, y)))
}

// parsePair parses a scalar, and compares the public key unless it is empty.
func parsePair(private, public string) (*Key, error) {
	raw, err := decode(private)
	if err != nil || len(raw) != scalarBytes {
		return nil, errNoKey
	}
	key, err := parseBytes("", raw)
	if err != nil {
		return nil, err
	}
	if want, err := decode(public); public != "" && (err != nil || base64.RawURLEncoding.EncodeToString(want) != key.public) {
		return nil, errors.New("holds a public key that is not the private key's")
	}
	return key, nil
}

func newKey(private *ecdsa.PrivateKey) (*Key, error) {
	if private.Curve != elliptic.P256() {
		return nil, errNoKey
	}
	public, err := private.PublicKey.Bytes()
	if err != nil {
		return nil, errNoKey
	}
	return &Key{private: private, public: base64.RawURLEncoding.EncodeToString(public)}, nil
}

// Public returns the public key in the format of browsers' applicationServerKey: 87 characters of
// base64url.
func (k *Key) Public() string { return k.public }

// String returns the public key, so that a printed key reveals no secret.
func (k *Key) String() string { return k.public }

// PEM returns the private key as PKCS#8 in PEM.
func (k *Key) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
