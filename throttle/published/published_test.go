package published

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
)

// A virtual is a set clock, in µs.
type virtual struct{ us int64 }

func (v *virtual) now() time.Time { return time.UnixMicro(v.us) }

// backends makes the same limiter on each backend.
var backends = map[string]func(testing.TB, Options) *Limiter{
	"memory": func(t testing.TB, o Options) *Limiter {
		p, err := NewMemory(o)
		must(t, err)
		return p
	},
	"redis": func(t testing.TB, o Options) *Limiter {
		o.Prefix = redistest.Prefix()
		o.Timeout = 10 * time.Second
		p, err := New(redistest.Shared(t).Client(t), o)
		must(t, err)
		return p
	},
}

// A traceLine is a line of a trace, or with a result a line of the trace's output.
type traceLine struct {
	I  *int        `json:"i,omitempty"`
	T  json.Number `json:"t"`
	ID string      `json:"id"`
	Op string      `json:"op"`
	*traceResult
}

type traceResult struct {
	Blocked bool  `json:"blocked"`
	Count   bool  `json:"count"`
	Gap     bool  `json:"gap"`
	Left    int64 `json:"left"`
	Rem     int   `json:"rem"`
}

// replay runs a trace and returns its output.
func replay(ctx context.Context, p *Limiter, clock *virtual, trace []byte) ([]byte, error) {
	var out bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(trace))
	for i := 0; lines.Scan(); i++ {
		var line traceLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		ms, err := line.T.Float64()
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		clock.us = int64(math.Round(ms * 1000))
		line.I = &i
		var r Result
		switch line.Op {
		case "limit":
			r, err = p.Limit(ctx, line.ID)
		case "would":
			r, err = p.WouldLimit(ctx, line.ID)
		case "clear":
			err = p.Clear(ctx, line.ID)
		default:
			err = fmt.Errorf("unknown operation %q", line.Op)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if line.Op != "clear" {
			line.traceResult = &traceResult{r.Blocked, r.ByCount, r.ByGap, r.Left.Milliseconds(), r.Remaining}
		}
		text, err := json.Marshal(line)
		if err != nil {
			return nil, err
		}
		out.Write(append(text, '\n'))
	}
	return out.Bytes(), lines.Err()
}

var outName = regexp.MustCompile(`^(.+)\.interval([0-9.]+)\.max([0-9]+)\.gap([0-9.]+)\.out$`)

// traceOptions parses the name of a trace's output.
func traceOptions(t testing.TB, path string) (input string, o Options) {
	t.Helper()
	m := outName.FindStringSubmatch(filepath.Base(path))
	if m == nil {
		t.Fatalf("%s: want NAME.intervalI.maxM.gapG.out", path)
	}
	ms := func(text string) time.Duration {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return time.Duration(math.Round(f*1000)) * time.Microsecond
	}
	n, err := strconv.Atoi(m[3])
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return filepath.Join(filepath.Dir(path), m[1]+".jsonl"), Options{Interval: ms(m[2]), Max: n, MinGap: ms(m[4])}
}

func TestAnswersEqualLibrary(t *testing.T) {
	t.Parallel()
	outputs, err := filepath.Glob("testdata/*.out")
	if err != nil || len(outputs) == 0 {
		t.Fatalf("found %d traces: %v", len(outputs), err)
	}
	for _, path := range outputs {
		for backend, open := range backends {
			t.Run(backend+"/"+filepath.Base(path), func(t *testing.T) {
				t.Parallel()
				input, o := traceOptions(t, path)
				trace, err := os.ReadFile(input)
				must(t, err)
				want, err := os.ReadFile(path)
				must(t, err)
				clock := &virtual{}
				o.Now = clock.now
				got, err := replay(t.Context(), open(t, o), clock, trace)
				must(t, err)
				gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
				if len(gotLines) != len(wantLines) {
					t.Fatalf("%d lines; want %d", len(gotLines), len(wantLines))
				}
				for i := range wantLines {
					if gotLines[i] != wantLines[i] {
						t.Fatalf("line %d\n got %s\nwant %s", i+1, gotLines[i], wantLines[i])
					}
				}
			})
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	o := Options{Interval: time.Hour, Max: 3, Prefix: redistest.Prefix()}
	client := redistest.Shared(t).Client(t)
	p, err := New(client, o)
	must(t, err)
	for range 50 {
		if _, err := p.Limit(t.Context(), "a b"); err != nil {
			t.Fatal(err)
		}
	}
	key := o.Prefix + ":{a%20b}:published"
	if n := client.ZCard(t.Context(), key).Val(); n != 4 {
		t.Errorf("%d entries are kept; want 4", n)
	}
	if ttl := client.PTTL(t.Context(), key).Val(); ttl < time.Hour || ttl > time.Hour+2*clockSlack {
		t.Errorf("the set lives for %s", ttl)
	}

	clock := &virtual{us: 1}
	o.Now = clock.now
	m, err := NewMemory(o)
	must(t, err)
	store := m.store.(*attemptsInMemory)
	for i := range 10_000 {
		clock.us += time.Minute.Microseconds()
		if _, err := m.Limit(t.Context(), strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(store.ids.ids); n > 200 { // the IDs of an hour, and as many expired ones
		t.Errorf("%d IDs are kept", n)
	}
}

func TestBadOptionsAreRejected(t *testing.T) {
	t.Parallel()
	good := Options{Interval: time.Second, Max: 1}
	for name, change := range map[string]func(*Options){
		"no interval":    func(o *Options) { o.Interval = 0 },
		"nanoseconds":    func(o *Options) { o.Interval++ },
		"no max":         func(o *Options) { o.Max = 0 },
		"negative gap":   func(o *Options) { o.MinGap = -time.Second },
		"nanosecond gap": func(o *Options) { o.MinGap = 1 },
	} {
		o := good
		change(&o)
		if _, err := NewMemory(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewMemory(good); err != nil {
		t.Error(err)
	}
	bad, rate := throttle.Rate{Period: time.Second}, throttle.Rate{Count: 1, Period: time.Second}
	_, none := NewCounters(nil, nil, Options{})
	_, counters := NewCounters(nil, []throttle.Rate{bad}, Options{})
	_, window := NewWeightedWindow(bad, nil)
	_, bucket := NewFlooredBucket(bad, 1, nil)
	_, burst := NewFlooredBucket(rate, 0, nil)
	for i, err := range []error{none, counters, window, bucket, burst} {
		if err == nil {
			t.Errorf("%d: a count of 0 is taken", i)
		}
	}
}

func TestHungRedisIsUnavailable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	must(t, err)
	defer l.Close()
	client := redis.NewClient(&redis.Options{Addr: l.Addr().String(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer client.Close()
	p, err := New(client, Options{Interval: time.Second, Max: 1, Timeout: 50 * time.Millisecond})
	must(t, err)
	if _, err := p.Limit(t.Context(), "u"); !errors.Is(err, throttle.ErrUnavailable) {
		t.Errorf("limit: %v; want throttle.ErrUnavailable", err)
	}
	if err := p.Clear(t.Context(), "u"); !errors.Is(err, throttle.ErrUnavailable) {
		t.Errorf("clear: %v; want throttle.ErrUnavailable", err)
	}
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
