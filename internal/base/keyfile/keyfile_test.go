package keyfile

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const canary = "correct-horse-4f1c"

// openssl runs an openssl command in a folder; without that program it skips the test.
func openssl(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("this test needs openssl")
	}
	cmd := exec.CommandContext(t.Context(), "openssl", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("openssl %v: %v\n%s", args, err, out)
	}
	return out
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	return text
}

// Parse reads keys as openssl writes them, plain and encrypted.
func TestParseReadsFormsOfOpenSSL(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pass := "pass:" + canary
	for _, args := range [][]string{
		{"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "ec"},
		{"genpkey", "-algorithm", "RSA", "-out", "rsa"},
		{"ec", "-in", "ec", "-out", "ec-sec1"},
		{"pkey", "-in", "rsa", "-traditional", "-out", "rsa-pkcs1"},
		{"pkey", "-in", "ec", "-outform", "DER", "-out", "ec-der"},
		{"pkey", "-in", "ec", "-aes256", "-passout", pass, "-out", "ec-encrypted"},
		{"pkcs8", "-topk8", "-in", "rsa", "-v2", "des3", "-passout", pass, "-out", "rsa-encrypted"},
		{"pkcs8", "-topk8", "-in", "ec", "-scrypt", "-passout", pass, "-out", "ec-scrypt"},
		{"ec", "-in", "ec", "-aes128", "-passout", pass, "-out", "ec-old"},
		{"pkey", "-in", "rsa", "-traditional", "-des3", "-passout", pass, "-out", "rsa-old"},
	} {
		openssl(t, dir, args...)
	}
	for _, file := range []string{"ec", "rsa", "ec-sec1", "rsa-pkcs1", "ec-der", "ec-encrypted", "rsa-encrypted", "ec-scrypt", "ec-old", "rsa-old"} {
		want, err := Parse("", read(t, dir, strings.SplitN(file, "-", 2)[0]), "")
		must(t, err)
		text := read(t, dir, file)
		got, err := Parse(file, text, canary)
		if err != nil || !want.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(got.Public()) {
			t.Errorf("%s: %v", file, err)
		}
		if !strings.Contains(file, "encrypted") && !strings.HasSuffix(file, "-old") && !strings.HasSuffix(file, "-scrypt") {
			continue
		}
		if _, err := Parse(file, text, ""); !errors.Is(err, ErrEncrypted) {
			t.Errorf("%s without a password: %v", file, err)
		}
		if _, err := Parse(file, text, canary+"x"); !errors.Is(err, ErrPassword) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s with another password: %v", file, err)
		}
	}
}

// The command that an error suggests writes a file that Parse reads.
func TestSuggestedCommandDecryptsKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "it's a key.pem")
	openssl(t, dir, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-aes256", "-pass", "pass:"+canary, "-out", file)
	_, err := Parse(file, read(t, "", file), "")
	if err == nil {
		t.Fatal("read without a password")
	}
	_, command, ok := strings.Cut(err.Error(), "decrypt it with ")
	if !ok {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command+" -passin pass:"+canary)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	if _, err := Parse("", read(t, "", file+".pem"), ""); err != nil {
		t.Error(err)
	}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// certificate makes a certificate that parent has issued, or without parent a self-signed one.
func certificate(t *testing.T, name string, key *ecdsa.PrivateKey, parent *x509.Certificate, signer *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	must(t, err)
	c, err := x509.ParseCertificate(der)
	must(t, err)
	return c
}

func generate(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

func TestParseNamesFormOfOtherFiles(t *testing.T) {
	t.Parallel()
	key := generate(t)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must(t, err)
	cert := certificate(t, "leaf", key, nil, nil).Raw
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"empty":                     {nil, "holds no private key"},
		"text":                      {[]byte("hello"), "holds no private key"},
		"a public key":              {block("PUBLIC KEY", public), "public key"},
		"a public key in DER":       {public, "public key"},
		"a certificate":             {block("CERTIFICATE", cert), "certificate without its private key"},
		"a certificate in DER":      {cert, "certificate without its private key"},
		"a request":                 {block("CERTIFICATE REQUEST", []byte{1}), "certificate request"},
		"a key that is cut off":     {block("PRIVATE KEY", public[:20]), "holds no private key"},
		"PEM that is cut off":       {[]byte("-----BEGIN PRIVATE KEY-----\nMIGH"), "holds no private key"},
		"a public key, mislabelled": {block("PRIVATE KEY", public), "public key"},
	} {
		if _, err := Parse("f", c.text, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChainOrdersCertificates(t *testing.T) {
	t.Parallel()
	rootKey, middleKey, key := generate(t), generate(t), generate(t)
	root := certificate(t, "root", rootKey, nil, nil)
	middle := certificate(t, "middle", middleKey, root, rootKey)
	leaf := certificate(t, "leaf", key, middle, middleKey)
	stranger := certificate(t, "stranger", generate(t), nil, nil)
	all := []*x509.Certificate{leaf, middle, root}
	for _, order := range [][]*x509.Certificate{{leaf, middle, root}, {root, middle, leaf}, {middle, stranger, leaf, root, middle}} {
		got := Chain(key, order)
		if len(got) != len(all) {
			t.Fatalf("%d certificates", len(got))
		}
		for i := range all {
			if !bytes.Equal(got[i].Raw, all[i].Raw) {
				t.Errorf("%d: %s", i, got[i].Subject)
			}
		}
	}
	if got := Chain(rootKey, []*x509.Certificate{root}); len(got) != 1 {
		t.Errorf("its own issuer: %d certificates", len(got))
	}
	if got := Chain(generate(t), all); got != nil {
		t.Errorf("another key: %d certificates", len(got))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
