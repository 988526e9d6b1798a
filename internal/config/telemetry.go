package config

import (
	"errors"
	"net"
	"net/url"
	"strconv"
)

// Telemetry says where metrics, probes and traces are.
type Telemetry struct {
	// Serves `/metrics`, `/healthz` and `/readyz`; off by default. `:9090` is the loopback.
	Listen  Listen  `yaml:"listen"`
	Tracing Tracing `yaml:"tracing"`
}

// Tracing says where traces of notifications go, and which share of them.
type Tracing struct {
	// An OpenTelemetry collector, OTLP over HTTP; off by default. Without a path it is `/v1/traces`.
	Endpoint TraceEndpoint `yaml:"endpoint" kind:"URL"`
	// The recorded share of the traces that begin here, not in a producer.
	Ratio float64 `yaml:"ratio" default:"0.01" range:"0..1"`
}

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

// Listen is a host:port to listen on; "" for not at all.
type Listen string

// UnmarshalText accepts host:port. Without a host it means the loopback: an address for everyone,
// such as 0.0.0.0, must be named.
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
