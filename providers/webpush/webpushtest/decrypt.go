package webpushtest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

const (
	maxBody    = 4096
	saltSize   = 16
	pointSize  = 65
	headerSize = saltSize + 4 + 1 + pointSize
	lastRecord = 0x02
)

// decrypt decrypts a body in the content coding aes128gcm, as a browser does. Source: RFC 8188,
// section 2; RFC 8291, sections 3 and 4.
func (r receiver) decrypt(body []byte) ([]byte, error) {
	if len(body) < headerSize {
		return nil, errors.New("the body is shorter than its header")
	}
	salt, size, point := body[:saltSize], binary.BigEndian.Uint32(body[saltSize:]), body[saltSize+5:headerSize]
	record := body[headerSize:]
	if body[saltSize+4] != pointSize {
		return nil, errors.New("keyid is not a public key")
	}
	if uint64(size) < uint64(len(record)) || size < 18 {
		return nil, errors.New("there is more than one record")
	}
	sender, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return nil, errors.New("keyid is not on the curve")
	}
	shared, err := r.private.ECDH(sender)
	if err != nil {
		return nil, errors.New("there is no shared secret")
	}
	gcm, nonce, err := r.cipher(shared, point, salt)
	if err != nil {
		return nil, err
	}
	padded, err := gcm.Open(nil, nonce, record, nil)
	if err != nil {
		return nil, errors.New("the body is not for this receiver")
	}
	for i := len(padded) - 1; i >= 0; i-- {
		switch padded[i] {
		case 0:
		case lastRecord:
			return padded[:i], nil
		default:
			return nil, errors.New("the record is not the last")
		}
	}
	return nil, errors.New("the record has no delimiter")
}

// cipher returns the cipher and the nonce of the only record. point is the sender's public key.
func (r receiver) cipher(shared, point, salt []byte) (gcm cipher.AEAD, nonce []byte, err error) {
	info := "WebPush: info\x00" + string(r.private.PublicKey().Bytes()) + string(point)
	ikm, err := hkdf.Key(sha256.New, shared, r.auth, info, sha256.Size)
	if err != nil {
		return nil, nil, err
	}
	key, err := hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, nil, err
	}
	if nonce, err = hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: nonce\x00", 12); err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, err
	}
	gcm, err = cipher.NewGCM(block)
	return gcm, nonce, err
}
