package apns

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const canary = "correct-horse-4f1c"

// A shop makes files with the program openssl.
type shop struct {
	*testing.T
	dir string
}

// newShop makes a key and a certificate, key.pem and cert.pem, and the issuer's certificate,
// ca.pem. Without openssl it skips the test.
func newShop(t *testing.T, keys ...string) shop {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("this test needs openssl")
	}
	s := shop{t, t.TempDir()}
	s.run(append([]string{"req", "-x509", "-subj", "/CN=ca", "-noenc", "-keyout", "ca.key", "-out", "ca.pem"}, keys...)...)
	s.run(append([]string{"req", "-subj", "/CN=leaf", "-noenc", "-keyout", "key.pem", "-out", "leaf.csr"}, keys...)...)
	s.run("x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "cert.pem")
	return s
}

func (s shop) run(args ...string) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "openssl", args...)
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("openssl %v: %v\n%s", args, err, out)
	}
}

// export writes a .p12.
func (s shop) export(file, password string, args ...string) {
	s.Helper()
	s.run(append([]string{"pkcs12", "-export", "-in", "cert.pem", "-inkey", "key.pem", "-passout", "pass:" + password, "-out", file}, args...)...)
}

// write joins several files into one.
func (s shop) write(file string, parts ...string) {
	s.Helper()
	var all []byte
	for _, part := range parts {
		text, err := os.ReadFile(filepath.Join(s.dir, part))
		must(s, err)
		all = append(append(all, text...), '\n')
	}
	must(s, os.WriteFile(filepath.Join(s.dir, file), all, 0o600))
}

// config returns a Config with the files, and with a password file if password is not empty.
func (s shop) config(certificate, key, password string) Config {
	s.Helper()
	c := Config{CertificateFile: filepath.Join(s.dir, certificate)}
	if key != "" {
		c.KeyFile = filepath.Join(s.dir, key)
	}
	if password != "" {
		f, err := os.CreateTemp(s.dir, "password")
		must(s, err)
		defer f.Close()
		if _, err := f.WriteString(password + "\r\n"); err != nil {
			s.Fatal(err)
		}
		c.PasswordFile = f.Name()
	}
	return c
}

func TestCertificateFormsAreRead(t *testing.T) {
	t.Parallel()
	ec := newShop(t, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
	read := func(s shop, certificate, key, password string, chain int) {
		t.Helper()
		cert, err := loadCertificate(s.config(certificate, key, password))
		if err != nil || cert.Leaf.Subject.CommonName != "leaf" || len(cert.Certificate) != chain {
			t.Errorf("%s with %q: %d certificates, %v", certificate, key, len(cert.Certificate), err)
		}
	}
	ec.export("today.p12", canary)
	ec.export("chain.pfx", canary, "-certfile", "ca.pem")
	ec.export("empty.p12", "")
	ec.export("old.p12", canary, "-keypbe", "PBE-SHA1-3DES", "-certpbe", "PBE-SHA1-3DES", "-macalg", "sha1")
	ec.export("plain.p12", canary, "-keypbe", "NONE", "-certpbe", "NONE")
	ec.export("sha512.p12", canary, "-macalg", "sha512")
	ec.export("p12 by another name", canary)
	ec.run("pkey", "-in", "key.pem", "-aes256", "-passout", "pass:"+canary, "-out", "encrypted.pem")
	ec.run("x509", "-in", "cert.pem", "-outform", "DER", "-out", "aps.cer")
	ec.run("pkcs12", "-in", "chain.pfx", "-passin", "pass:"+canary, "-passout", "pass:"+canary, "-out", "bags.pem")
	ec.write("leaf-first.pem", "cert.pem", "ca.pem", "key.pem")
	ec.write("leaf-last.pem", "key.pem", "ca.pem", "cert.pem")
	ec.write("ca-first.pem", "ca.pem", "cert.pem")
	for _, c := range []struct {
		certificate, key, password string
		chain                      int
	}{
		{"today.p12", "", canary, 1}, {"chain.pfx", "", canary, 2}, {"empty.p12", "", "", 1}, {"old.p12", "", canary, 1},
		{"plain.p12", "", canary, 1}, {"sha512.p12", "", canary, 1}, {"p12 by another name", "", canary, 1},
		{"cert.pem", "key.pem", "", 1}, {"cert.pem", "encrypted.pem", canary, 1},
		{"leaf-first.pem", "", "", 2}, {"leaf-last.pem", "", "", 2}, {"ca-first.pem", "key.pem", "", 2},
		{"bags.pem", "", canary, 2}, {"aps.cer", "key.pem", "", 1},
	} {
		read(ec, c.certificate, c.key, c.password, c.chain)
	}
	rsa := newShop(t, "-newkey", "rsa:2048")
	rsa.export("today.p12", canary)
	read(rsa, "today.p12", "", canary, 1)
	// RC2 with 40 bits, as Keychain Access exports it. OpenSSL 3 may lack the provider.
	cmd := exec.CommandContext(t.Context(), "openssl", "pkcs12", "-export", "-legacy", "-in", "cert.pem", "-inkey", "key.pem", "-passout", "pass:"+canary, "-out", "rc2.p12")
	cmd.Dir = ec.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Logf("no RC2: %s", out)
	} else if _, err := loadCertificate(ec.config("rc2.p12", "", canary)); err != nil {
		t.Errorf("RC2: %v", err)
	}
}

func TestErrorReportsWrongCertificateForm(t *testing.T) {
	t.Parallel()
	s := newShop(t, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
	s.export("p.p12", canary)
	s.export("nokeys.p12", canary, "-nokeys")
	s.run("x509", "-in", "cert.pem", "-outform", "DER", "-out", "aps.cer")
	s.run("pkey", "-in", "key.pem", "-aes256", "-passout", "pass:"+canary, "-out", "encrypted.pem")
	s.run("pkey", "-in", "key.pem", "-pubout", "-out", "public.pem")
	s.write("both.pem", "cert.pem", "encrypted.pem")
	for _, c := range []struct{ certificate, key, password, want string }{
		{"p.p12", "", "", "p.p12 has a password: set password_file"},
		{"p.p12", "", canary + "x", "p.p12 has another password"},
		{"nokeys.p12", "", canary, "export both together"},
		{"aps.cer", "", "", "certificate without its private key: set key_file"},
		{"cert.pem", "", "", "certificate without its private key: set key_file"},
		{"cert.pem", "encrypted.pem", "", "openssl pkey -in " + filepath.Join(s.dir, "encrypted.pem")},
		{"cert.pem", "encrypted.pem", canary + "x", "the password does not decrypt"},
		{"both.pem", "", "", "set key_file to its output, or set password_file"},
		{"cert.pem", "public.pem", "", "public.pem: holds a public key"},
		{"cert.pem", "ca.pem", "", "ca.pem: holds a certificate"},
		{"cert.pem", "ca.key", "", "does not fit the configured private key"},
		{"key.pem", "", "", "holds no certificate in PEM"},
		{"ca.srl", "", "", "neither PEM nor a .p12"},
	} {
		_, err := loadCertificate(s.config(c.certificate, c.key, c.password))
		if err == nil || !strings.HasPrefix(err.Error(), "certificate_file: ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s with %q: %v, want %q", c.certificate, c.key, err, c.want)
		}
	}
}

// The error about an unsupported .p12 names a command. pushpace can read the command's output.
func TestCommandConvertsP12(t *testing.T) {
	t.Parallel()
	s := newShop(t, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
	s.export("my file.p12", canary, "-nomac")
	_, err := loadCertificate(s.config("my file.p12", "", canary))
	if err == nil {
		t.Skip("the .p12 can be read")
	}
	_, command, ok := strings.Cut(err.Error(), "convert it by ")
	command, _, ok2 := strings.Cut(command, " and set certificate_file")
	if !ok || !ok2 {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", command+" -passin pass:"+canary).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	if _, err := loadCertificate(s.config("my file.p12.pem", "", "")); err != nil {
		t.Error(err)
	}
}

// Errors name the form of a file that is not a .p8.
func TestErrorReportsWrongKeyForm(t *testing.T) {
	t.Parallel()
	s := newShop(t, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
	s.run("genpkey", "-algorithm", "RSA", "-out", "rsa.p8")
	s.run("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384", "-out", "p384.p8")
	s.run("pkey", "-in", "key.pem", "-aes256", "-passout", "pass:"+canary, "-out", "encrypted.p8")
	s.run("pkey", "-in", "key.pem", "-pubout", "-out", "public.p8")
	s.export("p.p12", canary)
	for file, want := range map[string]string{
		"key.pem":      "",
		"encrypted.p8": "openssl pkey -in ", "public.p8": "public key", "cert.pem": "certificate", "p.p12": "no private key", "p384.p8": "no P-256 key", "rsa.p8": "no P-256 key",
	} {
		_, err := loadKey(Config{KeyFile: filepath.Join(s.dir, file), KeyID: "ABCDEFGHIJ", TeamID: "0123456789"})
		if (err == nil) != (want == "") || err != nil && (!strings.HasPrefix(err.Error(), "key_file: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}
