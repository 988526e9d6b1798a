package standin

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
)

// ProxyHost is a name in every stand-in's certificate. Tests reach a stand-in under this name
// through a Proxy, because addresses of this machine bypass proxies.
const ProxyHost = "provider.example"

// A Proxy takes CONNECT, like a company's proxy, and connects to one server for every name. Close
// it.
type Proxy struct {
	listener net.Listener
	to       string
	serving  sync.WaitGroup

	mu            sync.Mutex
	status        int // of answers; 0 closes the connection without an answer
	closed        bool
	conns         map[net.Conn]bool
	targets       []string
	authorization string
}

// NewProxy returns a proxy to the server at that address. With a certificate, clients connect by TLS and
// HTTP/1.1; otherwise they connect without TLS.
func NewProxy(to string, certificate *tls.Certificate) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if certificate != nil {
		listener = tls.NewListener(listener, &tls.Config{
			Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		})
	}
	p := &Proxy{listener: listener, to: to, status: http.StatusOK, conns: map[net.Conn]bool{}}
	p.serving.Go(p.accept)
	return p, nil
}

// Address returns the proxy's host and port.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Answer sets the status of later answers; 0 closes connections without an answer.
func (p *Proxy) Answer(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

// Targets returns the hosts and ports that the proxy was asked for.
func (p *Proxy) Targets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.targets...)
}

// Authorization returns the credentials of the last request.
func (p *Proxy) Authorization() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.authorization
}

// Close breaks every connection.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	err := p.listener.Close()
	p.serving.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.serving.Go(func() { p.serve(conn) })
	}
}

// track registers the connection for Close. It returns false if Close was called before.
func (p *Proxy) track(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = true
	return !p.closed
}

func (p *Proxy) untrack(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	_ = conn.Close()
}

func (p *Proxy) serve(conn net.Conn) {
	defer p.untrack(conn)
	if !p.track(conn) {
		return
	}
	read := bufio.NewReader(conn)
	request, err := http.ReadRequest(read)
	if err != nil {
		return
	}
	p.mu.Lock()
	status := p.status
	p.targets, p.authorization = append(p.targets, request.Host), request.Header.Get("Proxy-Authorization")
	p.mu.Unlock()
	if request.Method != http.MethodConnect {
		status = http.StatusMethodNotAllowed
	}
	if status != http.StatusOK {
		if status != 0 {
			answer := &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Close: true}
			_ = answer.Write(conn)
		}
		return
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer p.untrack(server)
	if !p.track(server) {
		return
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	p.serving.Go(func() {
		_, _ = io.Copy(server, read)
		_ = server.Close()
	})
	_, _ = io.Copy(conn, server)
}
