package apns

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// windows is how an editor of Windows writes a text.
func windows(text []byte) []byte {
	return []byte("\ufeff" + strings.ReplaceAll(string(text), "\n", "\r\n"))
}

func TestCredentialFilesTakeByteOrderMarkAndCRLF(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name string, text []byte) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	if der, err = x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key); err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})

	if _, err := loadKey(Config{KeyFile: put("key.p8", windows(private)), KeyID: "ABCDEFGHIJ", TeamID: "0123456789"}); err != nil {
		t.Errorf("key_file: %v", err)
	}
	for name, c := range map[string]Config{
		"both in one file":   {CertificateFile: put("both.pem", append(windows(cert), windows(private)...))},
		"certificate, key":   {CertificateFile: put("cert.pem", windows(cert)), KeyFile: put("key.pem", windows(private))},
		"password with mark": {CertificateFile: "testdata/client.p12", PasswordFile: put("password", windows([]byte("correct-horse\n")))},
	} {
		if _, err := loadCertificate(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if roots, err := loadRoots(Config{RootCAFile: put("ca.pem", append(windows(cert), windows(cert)...))}); err != nil || roots == nil {
		t.Errorf("root_ca_file: %v", err)
	}
	const utf16 = "is in UTF-16: save it as UTF-8"
	wide := put("wide", []byte("\xff\xfe-\x00-\x00"))
	for name, load := range map[string]func() error{
		"key_file":         func() error { _, err := loadKey(Config{KeyFile: wide}); return err },
		"certificate_file": func() error { _, err := loadCertificate(Config{CertificateFile: wide}); return err },
		"password_file": func() error {
			_, err := loadCertificate(Config{CertificateFile: "testdata/client.p12", PasswordFile: wide})
			return err
		},
		"root_ca_file": func() error { _, err := loadRoots(Config{RootCAFile: wide}); return err },
	} {
		if err := load(); err == nil || !strings.HasPrefix(err.Error(), name+": "+wide) || !strings.Contains(err.Error(), utf16) {
			t.Errorf("%s in UTF-16: %v", name, err)
		}
	}
}
