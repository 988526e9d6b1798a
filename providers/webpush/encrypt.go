package webpush

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/pushpace/pushpace/push"
)

const (
	// saltSize is the length of a body's salt, in bytes. Source: RFC 8188, section 2.1.
	saltSize = 16
	// pointSize is the length of an uncompressed P-256 point, in bytes. Source: RFC 8291, section
	// 3.1.
	pointSize = 65
	// recordSize is the record size in a body's header, in bytes. A body has one record, of at
	// most that size. Source: RFC 8291, section 4.
	recordSize = 4096
	// headerSize is the length of a body's header, in bytes: salt, record size, the length of the
	// key and the key. Source: RFC 8188, section 2.1.
	headerSize = saltSize + 4 + 1 + pointSize
	// lastRecord is the delimiter after the last record's plaintext. Padding could follow; we add
	// none. Source: RFC 8188, section 2.
	lastRecord = 0x02
)

// A receiver holds the keys of the browser that decrypts a message.
type receiver struct {
	public *ecdh.PublicKey
	auth   []byte
}

// encrypt returns the body of a push message: plaintext, of at most push.MaxWebPushPayload bytes,
// in the content coding aes128gcm. Each message has its own key pair and salt. Source: RFC 8291,
// section 3.
func encrypt(plaintext []byte, to receiver) ([]byte, error) {
	sender, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails
	return seal(plaintext, to, sender, salt)
}

// seal is encrypt with a given key pair and salt.
func seal(plaintext []byte, to receiver, sender *ecdh.PrivateKey, salt []byte) ([]byte, error) {
	if len(plaintext) > push.MaxWebPushPayload {
		return nil, fmt.Errorf("the payload has %d bytes, at most %d are taken", len(plaintext), push.MaxWebPushPayload)
	}
	ikm, err := keyingMaterial(to, sender)
	if err != nil {
		return nil, err
	}
	header := make([]byte, 0, headerSize+len(plaintext)+1+16)
	header = append(header, salt...)
	header = binary.BigEndian.AppendUint32(header, recordSize)
	header = append(header, pointSize)
	header = append(header, sender.PublicKey().Bytes()...)
	return sealRecord(header, plaintext, ikm, salt)
}

// keyingMaterial combines the shared secret of the two key pairs with the
// authentication secret. Source: RFC 8291, section 3.4.
func keyingMaterial(to receiver, sender *ecdh.PrivateKey) ([]byte, error) {
	shared, err := sender.ECDH(to.public)
	if err != nil {
		return nil, err
	}
	const label = "WebPush: info\x00"
	secret, err := hkdf.Extract(sha256.New, shared, to.auth)
	if err != nil {
		return nil, err
	}
	info := make([]byte, 0, len(label)+2*pointSize)
	info = append(info, label...)
	info = append(info, to.public.Bytes()...)
	info = append(info, sender.PublicKey().Bytes()...)
	return expand(hmac.New(sha256.New, secret), info), nil
}

// expand returns the first 32 bytes of HKDF-Expand with mac's key. crypto/hkdf creates a MAC for
// each call: a push would allocate a quarter more often. Source: RFC 5869, section 2.3.
func expand(mac hash.Hash, info []byte) []byte {
	mac.Reset()
	_, _ = mac.Write(info) // never fails
	_, _ = mac.Write(firstBlock)
	return mac.Sum(nil)
}

// The labels for a record's key and nonce. Source: RFC 8188, sections 2.2 and 2.3.
var (
	keyInfo   = []byte("Content-Encoding: aes128gcm\x00")
	nonceInfo = []byte("Content-Encoding: nonce\x00")
	// firstBlock is the counter of HKDF-Expand.
	firstBlock = []byte{1}
)

// sealRecord appends the only record of a body to its header. Source: RFC 8188, sections
// 2 to 2.3.
func sealRecord(header, plaintext, ikm, salt []byte) ([]byte, error) {
	secret, err := hkdf.Extract(sha256.New, ikm, salt)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, secret)
	block, err := aes.NewCipher(expand(mac, keyInfo)[:16])
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	body := append(append(header, plaintext...), lastRecord)
	nonce := expand(mac, nonceInfo)[:gcm.NonceSize()]
	return gcm.Seal(body[:len(header)], nonce, body[len(header):], nil), nil
}
