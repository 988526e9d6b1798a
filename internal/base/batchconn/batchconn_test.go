package batchconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A slow connection sends one batch for each token it gets.
type slow struct {
	net.Conn
	tokens  chan error
	closing chan struct{}
	once    sync.Once

	mu        sync.Mutex
	batches   []string
	readUntil time.Time
}

func newSlow() *slow { return &slow{tokens: make(chan error), closing: make(chan struct{})} }

func (s *slow) Write(p []byte) (int, error) {
	select {
	case err := <-s.tokens:
		if err != nil {
			return 0, err
		}
	case <-s.closing:
		return 0, net.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, string(p))
	return len(p), nil
}

func (s *slow) SetReadDeadline(at time.Time) error {
	s.readUntil = at
	return nil
}

func (s *slow) Close() error {
	s.once.Do(func() { close(s.closing) })
	return nil
}

func write(t *testing.T, c *Conn, text string) {
	t.Helper()
	if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
}

func TestWritesAreBatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlow()
		c := New(s)
		defer c.Close()
		write(t, c, "a")
		synctest.Wait() // a is being sent
		for _, text := range []string{"b", "c", "d"} {
			write(t, c, text)
		}
		s.tokens <- nil
		s.tokens <- nil
		synctest.Wait()
		if len(s.batches) != 2 || s.batches[0] != "a" || s.batches[1] != "bcd" {
			t.Errorf("sent %q", s.batches)
		}
	})
}

func TestWriteWaitsForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlow()
		c := New(s)
		defer c.Close()
		write(t, c, "a")
		synctest.Wait()
		write(t, c, string(make([]byte, maxPending)))
		wrote := false
		go func() {
			write(t, c, "late")
			wrote = true
		}()
		synctest.Wait()
		if wrote {
			t.Error("there is no bound")
		}
		s.tokens <- nil
		synctest.Wait()
		if !wrote {
			t.Error("it waits for ever")
		}
	})
}

func TestWriteAfterFailureFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlow()
		c := New(s)
		write(t, c, "a")
		broken := errors.New("broken")
		s.tokens <- broken
		synctest.Wait()
		if _, err := c.Write([]byte("b")); !errors.Is(err, broken) {
			t.Errorf("Write after a failure: %v", err)
		}
		if left := time.Until(s.readUntil); left != lastRead {
			t.Errorf("Read goes on for %s", left)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Read returns the data that the peer sent before it broke the connection.
func TestReadReturnsAnswersAfterFailedWrite(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	near, err := net.Dial("tcp", listener.Addr().String())
	must(t, err)
	c := New(near)
	defer c.Close()
	far, err := listener.Accept()
	must(t, err)
	if _, err := far.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	must(t, far.Close())
	for err == nil { // until c notices that the peer has closed the connection
		_, err = c.Write([]byte("question"))
	}
	got, err := io.ReadAll(c)
	if string(got) != "answer" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestCloseEndsBlockedCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(newSlow())
		write(t, c, "a")
		synctest.Wait()
		write(t, c, string(make([]byte, maxPending)))
		var failed error
		go func() { _, failed = c.Write([]byte("late")) }()
		synctest.Wait()
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if !errors.Is(failed, net.ErrClosed) {
			t.Errorf("the Write that waited: %v", failed)
		}
	})
}

func TestWritesKeepOrder(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	c := New(near)
	defer c.Close()
	var want []byte
	for i := range 2000 {
		want = append(want, bytes.Repeat([]byte{byte(i)}, i%50)...)
	}
	go func() {
		for left := want; len(left) > 0; {
			n := min(len(left), 33)
			if _, err := c.Write(left[:n]); err != nil {
				t.Error(err)
				return
			}
			left = left[n:]
		}
	}()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("what arrived is not what was written (%v)", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
