package apnstest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

const (
	// handshakeTimeout bounds TLS and the client's preface.
	handshakeTimeout = 5 * time.Second
	// partTimeout is how long a client may take to close after the last answer.
	partTimeout = 5 * time.Second
	// window is the flow-control window for clients, in bytes.
	window = 1 << 30
)

// A conn is one connection. The reader owns its buffers; mu guards the fields that the reader and
// the answers share. One goroutine writes all frames, so that many answers go out in one packet.
type conn struct {
	server *Server
	raw    net.Conn
	tls    *tls.Conn
	framer *http2.Framer
	writer *bufio.Writer
	block  bytes.Buffer
	hpack  *hpack.Encoder

	// Only the reader uses these.
	certified bool // the client showed a certificate
	updates   updates
	lastID    uint32
	taken     uint32 // bytes of bodies since the last WINDOW_UPDATE

	mu           sync.Mutex
	queue        []func()      // frames to write, in order
	ready        chan struct{} // signals that the queue is not empty, or the connection is closed
	streams      map[uint32]*stream
	limit        uint32 // streams at once
	lastAccepted uint32
	leaving      bool // GOAWAY is sent
	closed       bool
}

// A stream is one push in flight.
type stream struct {
	id      uint32
	request request
	decided bool // its answer is chosen
}

func newConn(s *Server, raw net.Conn) *conn {
	return &conn{
		server:  s,
		raw:     raw,
		tls:     tls.Server(raw, s.config),
		ready:   make(chan struct{}, 1),
		streams: make(map[uint32]*stream),
	}
}

// serve runs the connection until it ends.
func (c *conn) serve() {
	defer c.abort()
	_ = c.tls.SetDeadline(time.Now().Add(handshakeTimeout))
	if c.tls.Handshake() != nil {
		// Closing with unread data would reset the connection, and the client
		// might not see the alert.
		_, _ = io.Copy(io.Discard, c.raw)
		return
	}
	if c.tls.ConnectionState().NegotiatedProtocol != "h2" {
		return
	}
	preface := make([]byte, len(http2.ClientPreface))
	reader := bufio.NewReaderSize(c.tls, 32<<10)
	if _, err := io.ReadFull(reader, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	_ = c.tls.SetDeadline(time.Time{})
	c.server.Opened()
	defer c.server.Closed()

	c.certified = len(c.tls.ConnectionState().PeerCertificates) > 0
	c.limit = 1
	if c.certified {
		c.limit = c.server.options.Streams
	}
	c.writer = bufio.NewWriterSize(c.tls, 32<<10)
	c.framer = http2.NewFramer(c.writer, reader)
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.MaxHeaderListSize = 16 << 10
	c.hpack = hpack.NewEncoder(&c.block)

	limit := c.limit
	c.enqueue(func() {
		_ = c.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: limit})
		_ = c.framer.WriteWindowUpdate(0, window)
	})
	var writing sync.WaitGroup
	writing.Go(c.write)
	c.read()
	c.abort()
	writing.Wait()
}

// enqueue passes frames to the writer. Call it with c.mu held, or before the writer runs.
func (c *conn) enqueue(frames func()) {
	c.queue = append(c.queue, frames)
	c.wake()
}

// wake wakes the writer.
func (c *conn) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// send is enqueue for callers that do not hold c.mu.
func (c *conn) send(frames func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueue(frames)
}

// write writes queued frames until the connection ends.
func (c *conn) write() {
	var batch []func()
	for range c.ready {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return
		}
		batch, c.queue = c.queue, batch[:0]
		done := c.leaving && len(c.streams) == 0
		c.mu.Unlock()
		for i, frames := range batch {
			frames()
			batch[i] = nil
		}
		if c.writer.Flush() != nil {
			c.abort()
			return
		}
		if done {
			c.part()
			return
		}
	}
}

// part ends the server's side, and waits until the client closes: closing with
// unread data would reset the connection, and the client might not see the last
// answers.
func (c *conn) part() {
	_ = c.raw.SetReadDeadline(time.Now().Add(partTimeout))
	if c.tls.CloseWrite() != nil {
		c.abort()
	}
}

// abort breaks the connection; nothing further is answered.
func (c *conn) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	_ = c.raw.Close()
	for range c.streams {
		c.server.End()
	}
	clear(c.streams)
	c.wake()
}

// read handles frames until the connection ends or the client breaks the rules.
func (c *conn) read() {
	for {
		frame, err := c.framer.ReadFrame()
		if stream, ok := err.(http2.StreamError); ok {
			c.reset(stream.StreamID, stream.Code)
			continue
		}
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID%2 == 0 || f.StreamID <= c.lastID {
				return
			}
			c.lastID = f.StreamID
			c.begin(f)
		case *http2.DataFrame:
			c.data(f)
		case *http2.SettingsFrame:
			if !f.IsAck() {
				if size, ok := f.Value(http2.SettingHeaderTableSize); ok {
					c.send(func() { c.hpack.SetMaxDynamicTableSizeLimit(size); _ = c.framer.WriteSettingsAck() })
				} else {
					c.send(func() { _ = c.framer.WriteSettingsAck() })
				}
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				data := f.Data
				c.send(func() { _ = c.framer.WritePing(true, data) })
			}
		case *http2.RSTStreamFrame:
			c.forget(f.StreamID)
		}
	}
}

// begin opens a stream.
func (c *conn) begin(f *http2.MetaHeadersFrame) {
	c.mu.Lock()
	switch {
	case c.closed || c.leaving:
		// After GOAWAY the client knows that the stream is not processed.
		c.mu.Unlock()
		return
	case len(c.streams) >= int(c.limit):
		c.mu.Unlock()
		c.reset(f.StreamID, http2.ErrCodeRefusedStream)
		return
	}
	s := &stream{id: f.StreamID}
	c.streams[s.id] = s
	c.server.Begin()
	c.mu.Unlock()
	s.request.read(f.Fields)
	if f.StreamEnded() {
		c.decide(s)
	}
}

// data takes a part of a body.
func (c *conn) data(f *http2.DataFrame) {
	if c.taken += f.Length; c.taken >= window/2 {
		taken := c.taken
		c.taken = 0
		c.send(func() { _ = c.framer.WriteWindowUpdate(0, taken) })
	}
	c.mu.Lock()
	s := c.streams[f.StreamID]
	c.mu.Unlock()
	if s == nil || s.decided {
		return
	}
	s.request.body = append(s.request.body, f.Data()...)
	if f.StreamEnded() || len(s.request.body) > push.MaxAPNsVoIPPayload {
		c.decide(s)
	}
}

// reset refuses a stream.
func (c *conn) reset(id uint32, code http2.ErrCode) {
	c.forget(id)
	c.send(func() { _ = c.framer.WriteRSTStream(id, code) })
}

// forget drops a stream without an answer.
func (c *conn) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[id] != nil {
		delete(c.streams, id)
		c.server.End()
		c.wake()
	}
}

// decide chooses the answer to a complete request, records an accepted push in the ledger, and
// answers after the latency.
func (c *conn) decide(s *stream) {
	s.decided = true
	r, now := &s.request, time.Now()
	if refused := c.refusal(r, now); refused.status != 0 {
		c.answerAfter(c.server.latency(), s, refuse(refused, r.id))
		return
	}
	a := c.server.Next(r.token)
	if r.id == "" {
		r.id = strings.ToLower(uuid.NewString())
	}
	if a.Accepts() {
		c.mu.Lock()
		gone := c.streams[s.id] == nil
		if !gone {
			c.lastAccepted = max(c.lastAccepted, s.id)
		}
		c.mu.Unlock()
		if gone {
			return // a GOAWAY has said that the push is not processed
		}
		c.server.ledger.Add(standin.Entry{
			At: now, Platform: string(push.APNs), App: r.topic, Token: r.token, APNsID: r.id,
			Notification: standin.NotificationID(r.body), PayloadBytes: len(r.body),
		})
	}
	delay := c.server.latency() + a.Delay
	switch a.Fault {
	case standin.BlackHole:
	case standin.Close:
		c.after(delay, c.abort)
	case standin.GoAway:
		c.after(delay, func() { c.goAway(true) })
	case standin.GoAwayUnprocessed:
		c.after(delay, func() { c.goAwayWithout(s) })
	case standin.Drain:
		c.after(delay, func() { c.goAway(false) })
		c.answerAfter(delay, s, replyTo(a, r.id, now))
	default:
		c.answerAfter(delay, s, replyTo(a, r.id, now))
	}
}

// refusal checks a request as APNs does, and allows more streams once the connection is
// authenticated.
func (c *conn) refusal(r *request, now time.Time) refusal {
	if refused := r.checkPath(); refused.status != 0 {
		return refused
	}
	if r.authorization != "" || !c.certified {
		bearer, ok := strings.CutPrefix(r.authorization, "bearer ")
		if !ok || bearer == "" {
			return refusal{http.StatusForbidden, apns.MissingProviderToken}
		}
		switch reason := c.server.tokens.check(bearer, &c.updates, now); reason {
		case "":
		case apns.TooManyProviderTokenUpdates:
			return refusal{http.StatusTooManyRequests, reason}
		default:
			return refusal{http.StatusForbidden, reason}
		}
	}
	c.mu.Lock()
	if streams := c.server.options.Streams; c.limit != streams {
		c.limit = streams
		c.enqueue(func() {
			_ = c.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: streams})
		})
	}
	c.mu.Unlock()
	return r.check(c.server.topics)
}

// after calls f after the delay, at once if there is none.
func (c *conn) after(delay time.Duration, f func()) {
	if delay <= 0 {
		f()
		return
	}
	time.AfterFunc(delay, f)
}

// answerAfter answers a stream after the delay, unless the stream ends before.
func (c *conn) answerAfter(delay time.Duration, s *stream, r reply) {
	c.after(delay, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.streams[s.id] == nil {
			return
		}
		delete(c.streams, s.id)
		c.server.End()
		c.enqueue(func() { c.writeReply(s.id, r) })
	})
}

// writeReply writes a reply's frames. Only the writer calls it.
func (c *conn) writeReply(id uint32, r reply) {
	c.block.Reset()
	c.field(":status", strconv.Itoa(r.status))
	if r.id != "" {
		c.field("apns-id", r.id)
	}
	if r.contentType != "" {
		c.field("content-type", r.contentType)
	}
	if r.retryAfter != "" {
		c.field("retry-after", r.retryAfter)
	}
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: len(r.body) == 0,
	})
	if len(r.body) > 0 {
		_ = c.framer.WriteData(id, true, r.body)
	}
}

func (c *conn) field(name, value string) {
	// An apns-id is never repeated: it would only displace other entries of the table.
	_ = c.hpack.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: name == "apns-id"})
}

// goAwayReason is the debug data of the server's GOAWAY.
const goAwayReason = `{"reason":"` + string(apns.Shutdown) + `"}`

// goAway sends a GOAWAY: pushes accepted so far are processed, later ones are not. It
// breaks the connection at once, or after the answers to the accepted pushes.
func (c *conn) goAway(atOnce bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	last := c.lastAccepted
	for id := range c.streams {
		if atOnce || (!c.leaving && id > last) {
			delete(c.streams, id)
			c.server.End()
		}
	}
	if c.leaving {
		c.wake()
		return
	}
	c.leaving = true
	c.enqueue(func() { _ = c.framer.WriteGoAway(last, http2.ErrCodeNo, []byte(goAwayReason)) })
}

// goAwayWithout ends the connection by a GOAWAY that says that s is not processed.
func (c *conn) goAwayWithout(s *stream) {
	c.mu.Lock()
	below := s.id < c.lastAccepted
	c.mu.Unlock()
	if below {
		c.reset(s.id, http2.ErrCodeRefusedStream)
	}
	c.goAway(false)
}
