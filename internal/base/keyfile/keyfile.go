// Package keyfile reads private keys in their common forms. Its errors name the form of a file that
// is no private key, and contain nothing of a key or a password. Start with Parse.
package keyfile

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/youmark/pkcs8"
)

// The reasons why a private key cannot be read.
var (
	ErrEncrypted = errors.New("the private key is encrypted")
	ErrPassword  = errors.New("the password does not decrypt the private key")

	errNone        = errors.New("holds no private key: want PEM with BEGIN PRIVATE KEY")
	errPublic      = errors.New("holds a public key: want the private key")
	errCertificate = errors.New("holds a certificate without its private key")
)

// Parse returns the private key in a file's text: PKCS#8, SEC 1 or PKCS#1, in PEM or DER. An
// encrypted key needs the password. Commands that an error suggests contain the file's name.
func Parse(file string, text []byte, password string) (crypto.Signer, error) {
	found := errNone
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if isPrivate(block.Type) {
			return ofBlock(file, block, password)
		}
		if named := public[block.Type]; named != nil {
			found = named
		}
	}
	if found != errNone || bytes.Contains(text, []byte("-----BEGIN")) {
		return nil, found
	}
	return ofDER(text)
}

// public are the PEM blocks that people provide by mistake in place of a private key.
var public = map[string]error{
	"PUBLIC KEY":          errPublic,
	"RSA PUBLIC KEY":      errPublic,
	"CERTIFICATE":         errCertificate,
	"CERTIFICATE REQUEST": errors.New("holds a certificate request: want the private key that it was made with"),
}

func isPrivate(block string) bool { return strings.HasSuffix(block, "PRIVATE KEY") }

func ofBlock(file string, block *pem.Block, password string) (crypto.Signer, error) {
	//lint:ignore SA1019 the encryption of RFC 1423 is weak, but some keys use it
	old := x509.IsEncryptedPEMBlock(block)
	byHand := Command("openssl pkey -in FILE -out NEW", file)
	switch {
	case !old && block.Type != "ENCRYPTED PRIVATE KEY":
		return ofDER(block.Bytes)
	case password == "":
		return nil, fmt.Errorf("%w: decrypt it with %s", ErrEncrypted, byHand)
	case old:
		//lint:ignore SA1019 see above
		der, err := x509.DecryptPEMBlock(block, []byte(password))
		if err == nil {
			if key, err := ofDER(der); err == nil { // decryption does not detect every wrong password
				return key, nil
			}
		}
	default:
		key, _, err := pkcs8.ParsePrivateKey(block.Bytes, []byte(password))
		if signer, ok := key.(crypto.Signer); err == nil && ok {
			return signer, nil
		}
	}
	return nil, fmt.Errorf("%w, or it is encrypted in a way that is not supported: decrypt it with %s", ErrPassword, byHand)
}

func ofDER(der []byte) (crypto.Signer, error) {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, errors.New("holds a private key that cannot sign: want an EC, RSA or Ed25519 key")
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	if _, err := x509.ParseCertificate(der); err == nil {
		return nil, errCertificate
	}
	if _, err := x509.ParsePKIXPublicKey(der); err == nil {
		return nil, errPublic
	}
	return nil, errNone
}

// plain matches names that a shell does not need quoted.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./+:@%-]*$`)

// Command returns a shell command, with the file in place of FILE, and in place of NEW the name of
// a new file in the same folder.
func Command(command, file string) string {
	quote := func(name string) string {
		if plain.MatchString(name) {
			return name
		}
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	words := strings.Split(command, " ")
	for i, word := range words {
		switch word {
		case "FILE":
			words[i] = quote(file)
		case "NEW":
			words[i] = quote(file + ".pem")
		}
	}
	return strings.Join(words, " ")
}

// Owns reports whether the certificate belongs to the private key.
func Owns(key crypto.Signer, certificate *x509.Certificate) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(certificate.PublicKey)
}

// Chain returns the private key's certificate and then its issuers' certificates, in order, as far as
// certificates has them. It returns nil if no certificate belongs to the key.
func Chain(key crypto.Signer, certificates []*x509.Certificate) []*x509.Certificate {
	at := slices.IndexFunc(certificates, func(c *x509.Certificate) bool { return Owns(key, c) })
	if at < 0 {
		return nil
	}
	chain := []*x509.Certificate{certificates[at]}
	for {
		last := chain[len(chain)-1]
		at := slices.IndexFunc(certificates, func(c *x509.Certificate) bool {
			return bytes.Equal(c.RawSubject, last.RawIssuer) && !slices.ContainsFunc(chain, c.Equal)
		})
		if at < 0 {
			return chain
		}
		chain = append(chain, certificates[at])
	}
}
