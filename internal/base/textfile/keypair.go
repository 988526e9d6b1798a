package textfile

import "crypto/tls"

// KeyPair reads a certificate and its key as tls.LoadX509KeyPair does.
func KeyPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := Read(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := Read(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}
