package providers

import (
	"crypto/x509"
	"fmt"

	"github.com/pushpace/pushpace/internal/base/textfile"
)

// ReadRoots returns the certificates in the PEM file that root_ca_file names, or nil,
// which means the system's, when file is empty.
func ReadRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := textfile.Read(file)
	if err != nil {
		return nil, fmt.Errorf("root_ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("root_ca_file: %s holds no certificate in PEM", file)
	}
	return roots, nil
}
