package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/config"
)

// Explain adds the problem and the remedy to an error of Redis, or of the connection to it, for the
// operator. It returns an unknown error, or nil, unchanged.
func Explain(err error, cfg config.Redis) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if words := meaning(err, cfg); words != "" {
		return fmt.Errorf("%s: %w", words, err)
	}
	return err
}

// meaning returns the problem and the remedy, "" if they are unknown.
func meaning(err error, cfg config.Redis) string {
	var (
		op       *net.OpError
		timeout  net.Error
		record   tls.RecordHeaderError
		verifies *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &record), errors.As(err, &verifies):
		return "TLS fails: check tls"
	case errors.As(err, &op) && op.Op == "dial":
		return "cannot be reached: check address, and that the server runs"
	case cfg.Address.Mode == config.Cluster && redisreply.NoCluster(err):
		return "is no Cluster: write address as host:port, not as a list"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "does not answer: check that the server is healthy, and that tls is on at both ends or at neither"
	case cfg.Address.Mode == config.Sentinel && redisreply.NoMaster(err):
		return "no Sentinel knows the master: check address.sentinels and address.master"
	}
	if redisreply.Forbidden(err) {
		if errors.Is(err, acknowledged.ErrUnacknowledged) {
			return "refuses WAIT, which acknowledged needs: give its user the right, or remove acknowledged"
		}
		return "refuses a command: give its user the rights"
	}
	switch redisreply.Of(err) {
	case redisreply.Away:
		return "does not answer: check that the server is healthy"
	case redisreply.Refused:
		return "the credentials are refused: check username and password"
	case redisreply.Crowded:
		return "takes no more clients: raise its maxclients, or connect fewer"
	case redisreply.Full:
		return "is full and accepts no writes: raise its maxmemory, or delete keys"
	case redisreply.ReadOnly:
		return "is a read-only replica: set address to the master, or to the Sentinels"
	case redisreply.NoReplicas:
		if errors.Is(err, acknowledged.ErrUnacknowledged) {
			return "may have the write, and too few replicas have it: bring them back, or lower acknowledged, and repeat the command"
		}
		return "has fewer replicas than a write requires: bring them back, or lower its min-replicas-to-write, or acknowledged"
	case redisreply.NotSaved:
		return "cannot save to its disk, and accepts no writes: read its log"
	case redisreply.Starting:
		return "is loading its keys, or waits for its master: wait"
	case redisreply.Busy:
		return "is blocked by a script: wait, or end the script by SCRIPT KILL"
	case redisreply.Broken:
		return "the Cluster is down, as hash slots have no master: see its CLUSTER INFO"
	}
	return ""
}
