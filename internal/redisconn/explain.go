package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/pushpace/pushpace/internal/config"
)

// explain says what an error of the first commands means for whoever starts the
// program.
func explain(err error, cfg config.Redis) error {
	var (
		op       *net.OpError
		timeout  net.Error
		record   tls.RecordHeaderError
		verifies *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &record), errors.As(err, &verifies):
		return fmt.Errorf("TLS fails: check tls: %w", err)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("cannot be reached: check address, and that the server runs: %w", err)
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("does not answer: check that the server is well, and whether tls is on or off at both ends: %w", err)
	}
	message := err.Error()
	switch {
	case strings.Contains(message, "NOAUTH"), strings.Contains(message, "without any password configured"),
		strings.Contains(message, "WRONGPASS"), strings.Contains(message, "invalid password"):
		return fmt.Errorf("the credentials are refused: check username and password: %w", err)
	case cfg.Address.Mode == config.Cluster && strings.Contains(message, "cluster support disabled"):
		return fmt.Errorf("is no Cluster: write address as host:port, not as a list: %w", err)
	case cfg.Address.Mode == config.Sentinel && strings.Contains(message, "all sentinels"):
		return fmt.Errorf("no Sentinel knows the master: check address.sentinels and address.master: %w", err)
	}
	return err
}
