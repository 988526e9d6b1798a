package webpush

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pushpace/pushpace/internal/base/textfile"
)

// A Key is the key pair that an app is known by at the push services (RFC 8292). Each
// subscription is bound for life to the key that it was made with.
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

// maxKeyFile is how much of a file is read as a key, in bytes.
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
	k, err := ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return k, nil
}

// errNoKey says what ParseKey takes.
var errNoKey = errors.New("holds no P-256 private key: want PEM (PKCS#8 or SEC 1), or the 43 characters of base64url that the library web-push calls the private key")

// scalarLength is that of a private key's scalar in base64url, in characters.
const scalarLength = 43

// ParseKey reads a private key: PEM, of PKCS#8 or SEC 1, or the scalar of 32 bytes as 43
// characters of base64url. Its errors hold nothing of the text.
func ParseKey(text []byte) (*Key, error) {
	if scalar := strings.TrimSpace(string(text)); len(scalar) == scalarLength {
		raw, err := base64.RawURLEncoding.DecodeString(scalar)
		if err != nil {
			return nil, errNoKey
		}
		private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
		if err != nil {
			return nil, errNoKey
		}
		return newKey(private)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "PRIVATE KEY":
			parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if private, ok := parsed.(*ecdsa.PrivateKey); err == nil && ok {
				return newKey(private)
			}
			return nil, errNoKey
		case "EC PRIVATE KEY":
			private, err := x509.ParseECPrivateKey(block.Bytes)
			if err != nil {
				return nil, errNoKey
			}
			return newKey(private)
		}
	}
	return nil, errNoKey
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

// Public returns the public key as browsers take it for applicationServerKey: 87
// characters of base64url.
func (k *Key) Public() string { return k.public }

// String returns the public key: a key that is printed tells nothing.
func (k *Key) String() string { return k.public }

// PEM returns the private key as a file holds it: PKCS#8 in PEM.
func (k *Key) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
