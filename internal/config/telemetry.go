package config

import (
	"errors"
	"log/slog"
	"net"
	"strconv"
)

// Telemetry says where what the workers do can be seen.
type Telemetry struct {
	// Listen is where GET /metrics is answered over HTTP, for Prometheus. The zero
	// value is nowhere.
	Listen Listen `yaml:"listen"`
}

// Listen is a host:port to listen on. "" is none.
type Listen string

// UnmarshalText accepts host:port. Without a host it is the loopback: what
// everyone may reach names its address, such as 0.0.0.0.
func (l *Listen) UnmarshalText(text []byte) error {
	host, port, err := net.SplitHostPort(string(text))
	if err != nil {
		return errListen
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return errListen
	}
	if host == "" {
		host = "127.0.0.1"
	}
	*l = Listen(net.JoinHostPort(host, port))
	return nil
}

var errListen = errors.New("want host:port, or :port for the loopback")

// LogValue describes t for a log.
func (t Telemetry) LogValue() slog.Value {
	return slog.GroupValue(slog.String("listen", string(t.Listen)))
}
