package textfile

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
)

func in16(order binary.AppendByteOrder, text string) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

func in32(order binary.AppendByteOrder, text string) string {
	var b []byte
	for _, r := range text {
		b = order.AppendUint32(b, uint32(r))
	}
	return string(b)
}

func TestDecode(t *testing.T) {
	t.Parallel()
	const text = "{\"a\":1}\n"
	for name, tt := range map[string]struct{ in, want, refused string }{
		"no mark":                  {text, text, ""},
		"mark":                     {mark + text, text, ""},
		"two marks":                {mark + mark + text, text, ""},
		"mark alone":               {mark, "", ""},
		"empty":                    {"", "", ""},
		"part of a mark":           {"\xef\xbb", "\xef\xbb", ""},
		"CRLF":                     {mark + "a\r\nb\r\n", "a\r\nb\r\n", ""},
		"concatenated":             {mark + "a\n" + mark + "b\n", "a\nb\n", ""},
		"U+FEFF inside":            {"a" + mark + "b", "a" + mark + "b", ""},
		"UTF-16LE":                 {in16(binary.LittleEndian, mark+text), "", "UTF-16"},
		"UTF-16BE":                 {in16(binary.BigEndian, mark+text), "", "UTF-16"},
		"UTF-16LE without a mark":  {in16(binary.LittleEndian, text), "", "UTF-16"},
		"UTF-16BE without a mark":  {in16(binary.BigEndian, text), "", "UTF-16"},
		"UTF-16LE, mark alone":     {in16(binary.LittleEndian, mark), "", "UTF-16"},
		"UTF-32LE":                 {in32(binary.LittleEndian, mark+text), "", "UTF-32"},
		"UTF-32BE":                 {in32(binary.BigEndian, mark+text), "", "UTF-32"},
		"UTF-32LE without a mark":  {in32(binary.LittleEndian, text), "", "UTF-32"},
		"UTF-32BE without a mark":  {in32(binary.BigEndian, text), "", "UTF-32"},
		"bytes of a random secret": {"\x00\x17\x80\x00\xff", "\x00\x17\x80\x00\xff", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(of string, got []byte, err error) {
				t.Helper()
				var encoding *EncodingError
				switch {
				case tt.refused != "" && (!errors.As(err, &encoding) || encoding.Encoding != tt.refused):
					t.Errorf("%s: %q, %v; want a refusal of %s", of, got, err, tt.refused)
				case tt.refused == "" && (err != nil || string(got) != tt.want):
					t.Errorf("%s: %q, %v; want %q", of, got, err, tt.want)
				}
			}
			got, err := Decode([]byte(tt.in))
			check("Decode", got, err)
			r, err := NewReader(iotest.OneByteReader(strings.NewReader(tt.in)))
			if err == nil {
				if got, err = io.ReadAll(r); err == nil && string(got) != tt.in {
					t.Errorf("NewReader changed %q into %q", tt.in, got)
				}
				got, err = Decode(got)
			}
			check("NewReader", got, err)
			file := filepath.Join(t.TempDir(), "text")
			must(t, os.WriteFile(file, []byte(tt.in), 0o600))
			got, err = Read(file)
			check("Read", got, err)
			if tt.refused != "" && !strings.HasPrefix(err.Error(), file+": is in "+tt.refused+": save it as UTF-8") {
				t.Errorf("Read: %v", err)
			}
		})
	}
}

func TestReaderReturnsReadError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if _, err := NewReader(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("at the start: %v", err)
	}
	r, err := NewReader(io.MultiReader(bytes.NewReader([]byte("abcde")), iotest.ErrReader(broken)))
	must(t, err)
	if got, err := io.ReadAll(r); string(got) != "abcde" || !errors.Is(err, broken) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestKeyPairAcceptsByteOrderMark(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		must(t, os.WriteFile(file, append([]byte(mark), pem.EncodeToMemory(block)...), 0o600))
	}
	if _, err := KeyPair(certFile, keyFile); err != nil {
		t.Error(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
