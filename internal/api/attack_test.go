package api

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/config"
)

// stalled sends a request with an endless body, and waits until the server reads it.
func stalled(t *testing.T, s *Server, size, part string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, second(io.WriteString(conn, head+"Expect: 100-continue\r\n"+size+"\r\n\r\n")))
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("%q, %v", line, err)
	}
	must(t, second(io.WriteString(conn, part)))
}

// patientReads lets bodies stall for as long as a test takes.
func patientReads(o *config.HTTP) { o.ReadTimeout = eventually.Patience }

// A body that does not arrive takes no bytes of the budget, whatever length it has announced.
func TestUnsentBodyTakesNoBudget(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.listen(patientReads)
	for range 2 * bodyBudget / (4 << 20) {
		stalled(t, s, "Content-Length: "+strconv.Itoa(4<<20), "{")
	}
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("one", "ada"))
}

// A token with endless bodies uses up only its own share of the bodies. Other tokens continue,
// and requests without a body need no share.
func TestUnfinishedBodiesUseOnlyTheirTokensShare(t *testing.T) {
	t.Parallel()
	const most = 40
	r := newRig(t, func(o *rigOptions) { o.HTTP.MaxRequests = most })
	s := r.listen(patientReads)
	for range most / shares {
		stalled(t, s, "Transfer-Encoding: chunked", "")
	}
	answer := r.do(http.StatusServiceUnavailable, producerToken, "POST", "/v1/notifications", notification("one", "ada"))
	if answer.Header.Get("Retry-After") != "1" {
		t.Errorf("%+v", answer)
	}
	r.do(http.StatusNotFound, producerToken, "GET", "/v1/notifications/one", "")
	r.do(http.StatusOK, viewerToken, "GET", "/v1/limits", "")
	r.do(http.StatusAccepted, operatorToken, "POST", "/v1/notifications", notification("one", "ada"))
}

// A token with large bodies uses up only its own share of the bytes, and gets the share back.
func TestBytesOfATokensBodiesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.listen(patientReads)
	part := strings.Repeat(" ", 4<<20-1)
	for range bodyBudget / shares / (4 << 20) {
		stalled(t, s, "Content-Length: "+strconv.Itoa(4<<20), part)
	}
	own := r.api.bodies.of("shop")
	eventually.Holds(t, "the bytes are bounded", func() bool { // waits until the bodies have arrived
		free := own.bytes.TryAcquire(1 << 10)
		if free {
			own.bytes.Release(1 << 10)
		}
		return !free
	})
	large := func(id string) string { return "[" + notification(id, "ada") + strings.Repeat(" ", 1<<20) + "]" }
	r.do(http.StatusServiceUnavailable, producerToken, "POST", "/v1/notifications", large("one"))
	r.do(http.StatusNotFound, producerToken, "GET", "/v1/notifications/none", "")
	r.do(http.StatusAccepted, operatorToken, "POST", "/v1/notifications", large("two"))
	_ = s.http.Close()
	eventually.Holds(t, "the room is given back", func() bool { return r.try(large("three")) != http.StatusServiceUnavailable })
}

func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *rigOptions) { o.HTTP.MaxRequests = 1 })
	r.api.requests <- struct{}{}
	for _, path := range []string{"/v1/limits", "/v1/audit"} {
		if answer := r.do(http.StatusServiceUnavailable, viewerToken, "GET", path, ""); answer.Header.Get("Retry-After") != "1" {
			t.Errorf("%+v", answer)
		}
	}
	<-r.api.requests
	r.do(http.StatusOK, viewerToken, "GET", "/v1/limits", "")
}

// A client that sends the whole body before it reads the answer sees that the body is too
// large, whether or not it announced the length.
func TestTooLargeBodyIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.listen(nil)
	for name, body := range map[string]string{
		"a batch":       "Content-Length: " + strconv.Itoa(6<<20) + "\r\n\r\n" + strings.Repeat(" ", 6<<20),
		"a large one":   "Content-Length: " + strconv.Itoa(40<<20) + "\r\n\r\n" + strings.Repeat(" ", 40<<20),
		"not announced": "Transfer-Encoding: chunked\r\n\r\n800000\r\n" + strings.Repeat(" ", 8<<20) + "\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := raw(t, s, head+body)
			var p problem
			if err := json.NewDecoder(answer.Body).Decode(&p); err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge ||
				!answer.Close || p.Detail != "The body is larger than 4194304 bytes: split the batch." {
				t.Errorf("%d %+v, %v", answer.StatusCode, p, err)
			}
		})
	}
}

// Over HTTP/2 the stream is not reset before the client has sent everything: some clients
// take a reset for a truncated answer.
func TestTooLargeBodyIsAnsweredOverHTTP2(t *testing.T) {
	t.Parallel()
	const most = 1 << 10
	r := newRig(t, func(o *rigOptions) { o.HTTP.MaxBody = most })
	dir := t.TempDir()
	files := config.ServerTLS{CertFile: filepath.Join(dir, "api.crt"), KeyFile: filepath.Join(dir, "api.key")}
	selfSigned(t, files, 1)
	s := r.listen(func(o *config.HTTP) { o.TLS = files })
	conn, err := tls.Dial("tcp", s.Addr(), &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", NextProtos: []string{"h2"}})
	must(t, err)
	defer conn.Close()
	must(t, second(io.WriteString(conn, http2.ClientPreface)))
	frames := http2.NewFramer(conn, conn)
	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", "/v1/notifications"},
		{"authorization", "Bearer " + producerToken}, {"content-type", "application/json"}, {"content-length", strconv.Itoa(2 * most)},
	} {
		must(t, encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	request := http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true}
	must(t, errors.Join(frames.WriteSettings(), frames.WriteHeaders(request)))
	for sent, ended := false, false; !sent || !ended; {
		frame, err := frames.ReadFrame()
		must(t, err)
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame:
			t.Fatalf("the stream is reset: %s", frame.ErrCode)
		case *http2.DataFrame:
			if ended = frame.StreamEnded(); !sent && !ended {
				sent = true
				must(t, frames.WriteData(1, true, make([]byte, 2*most)))
			}
		}
	}
}

// Repeated failures, with a token or without, do not fill the log.
func TestRepeatedFailuresAreLoggedAsACount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const requests = 500
	for range requests {
		r.do(http.StatusUnauthorized, "", "GET", "/v1/audit", "")
		r.do(http.StatusNotFound, producerToken, "GET", "/v1/notifications/none", "")
	}
	r.do(http.StatusForbidden, producerToken, "GET", "/v1/audit", "") // a different failure
	r.api.Close()
	lines, told := r.log.lines(), map[int]int{}
	for _, text := range lines {
		var line struct{ Status, Again int }
		must(t, json.Unmarshal([]byte(text), &line))
		told[line.Status] += max(1, line.Again)
	}
	if len(lines) > 40 || told[http.StatusUnauthorized] != requests || told[http.StatusNotFound] != requests || told[http.StatusForbidden] != 1 {
		t.Errorf("%d lines tell of %v", len(lines), told)
	}
}
