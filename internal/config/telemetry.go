package config

import (
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strconv"
)

// Telemetry says where what the workers do can be seen.
type Telemetry struct {
	// Listen is where GET /metrics is answered over HTTP, for Prometheus, and GET
	// /healthz and /readyz. The zero value is nowhere.
	Listen Listen `yaml:"listen"`
	// Tracing is off by default.
	Tracing Tracing `yaml:"tracing"`
}

// Tracing says where traces of notifications go, and how many.
type Tracing struct {
	// Endpoint is a collector's URL for OTLP over HTTP, of at least scheme and
	// host; without a path it is /v1/traces. http is not encrypted. "" is off.
	Endpoint TraceEndpoint `yaml:"endpoint"`
	// Ratio is how many of the traces that begin here are recorded, 0 to 1. What
	// a producer has begun is recorded when the producer says so. 0.01 by default.
	Ratio Ratio `yaml:"ratio"`
}

const defaultRatio Ratio = 0.01

// TraceEndpoint is a URL.
type TraceEndpoint string

// UnmarshalText accepts a URL with http or https and a host, and without a
// password, which would be shown.
func (e *TraceEndpoint) UnmarshalText(text []byte) error {
	u, err := url.Parse(string(text))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("want a URL such as http://127.0.0.1:4318 or https://collector.example.com, without user or query")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	*e = TraceEndpoint(u.String())
	return nil
}

// Ratio is a share, 0 to 1.
type Ratio float64

// UnmarshalText accepts 0 to 1.
func (r *Ratio) UnmarshalText(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return errors.New("want a number from 0 to 1, such as 0.05")
	}
	*r = Ratio(f)
	return nil
}

// SetDefaults sets every field to its default.
func (t *Telemetry) SetDefaults() { *t = Telemetry{Tracing: Tracing{Ratio: defaultRatio}} }

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
	return slog.GroupValue(slog.String("listen", string(t.Listen)), slog.String("tracing", string(t.Tracing.Endpoint)))
}
