//go:build unix

package throttle_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
)

// The limits that the processes ask for.
var (
	processGeneral  = throttle.Policy{MinGap: 20 * time.Millisecond, Rates: []throttle.Rate{{Count: 5, Period: 400 * time.Millisecond}}}
	processCategory = throttle.Policy{Rates: []throttle.Rate{{Count: 2, Period: 500 * time.Millisecond}}}
)

const (
	processVariable = "PUSHPACE_TEST_PROCESS"
	processCount    = 8
	processUsers    = 50
	processJobs     = 24 // of each user
)

// A processSetup is what a process is told when it starts.
type processSetup struct {
	Address string
	Skew    time.Duration
	Step    time.Duration // of its clock, on the way
	Kill    float64       // chance that a round trip is its last
	Seed    uint64
}

// A processTask is one delivery, and a processAnswer what became of it.
type processTask struct {
	Number   int
	ID, User string
	Category bool
	Wait     time.Duration
}

type processAnswer struct {
	Number   int
	Decision throttle.Decision
	Err      string
}

func (k processTask) request() throttle.Request {
	r := throttle.Request{User: k.User, ID: k.ID, Horizon: time.Minute, Wait: k.Wait,
		Scopes: []throttle.Scope{{Name: throttle.General, Policy: processGeneral}}}
	if k.Category {
		r.Scopes = append(r.Scopes, throttle.Scope{Name: "news", Policy: processCategory})
	}
	return r
}

// TestProcesses has eight processes pace fifty users on one Redis. Their clocks
// are wrong, they are killed at the worst moments, and Redis is restarted.
func TestProcesses(t *testing.T) {
	if setup := os.Getenv(processVariable); setup != "" {
		runProcess(setup)
		return
	}
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	t.Parallel()
	server := redistest.Start(t, redistest.AppendOnly())
	f := &fleet{t: t, server: server, answers: make(chan processAnswer, 1024), ended: make(chan *process, processCount),
		open: map[int]*processDelivery{}, due: make(chan *processDelivery, 4096), rng: rand.New(rand.NewPCG(1, 2))}
	f.run()

	client := server.Client(t)
	judgeTimelines(t, client, "processes", processGeneral, processCategory, f.log)
	judgeLeaks(t, client, "processes:*")
	if f.kills < 8 || f.restarts < 2 {
		t.Errorf("%d processes were killed and Redis restarted %d times; the test is made for more", f.kills, f.restarts)
	}
	t.Logf("%d admissions, %d acquires for %d deliveries, %d failed; %d processes killed, Redis restarted %d times",
		len(f.log), f.acquires, f.deliveries, f.failed, f.kills, f.restarts)
}

// A fleet hands deliveries to processes, again and again until they are granted.
type fleet struct {
	t         *testing.T
	server    *redistest.Server
	rng       *rand.Rand
	processes []*process
	answers   chan processAnswer
	ended     chan *process
	due       chan *processDelivery
	open      map[int]*processDelivery

	log                                              []grant
	kills, restarts, acquires, deliveries, failed, n int
}

type processDelivery struct {
	task processTask
	in   *process // nil while it waits
}

func (f *fleet) run() {
	for range processCount {
		f.processes = append(f.processes, f.start())
	}
	f.t.Cleanup(func() {
		for _, p := range f.processes {
			p.end()
		}
	})
	for i := range processUsers * processJobs {
		task := processTask{ID: fmt.Sprintf("n%d", i), User: fmt.Sprintf("u%d", i%processUsers), Category: i/processUsers%3 == 0}
		if i%5 == 0 {
			task.Wait = 60 * time.Millisecond
		}
		f.add(task)
		if i%10 == 0 {
			f.add(task) // its twin
		}
	}
	limit := time.After(3 * time.Minute)
	var back <-chan time.Time // when a killed Redis is started again
	for len(f.open) > 0 {
		select {
		case d := <-f.due:
			f.deliver(d)
		case a := <-f.answers:
			f.answered(a)
		case p := <-f.ended:
			f.replace(p)
		case <-back:
			f.server.Restart(f.t)
			f.restarts++
			back = nil
		case <-limit:
			f.t.Fatalf("%d deliveries have not ended", len(f.open))
		}
		if left := len(f.open); back == nil && (f.restarts == 0 && left < f.n*2/3 || f.restarts == 1 && left < f.n/3) {
			f.server.Kill(f.t)
			back = time.After(200 * time.Millisecond)
		}
	}
}

func (f *fleet) add(task processTask) {
	f.n++
	f.deliveries++
	task.Number = f.n
	d := &processDelivery{task: task}
	f.open[task.Number] = d
	f.later(d, time.Duration(f.rng.Int64N(int64(time.Second))))
}

func (f *fleet) later(d *processDelivery, in time.Duration) {
	d.in = nil
	time.AfterFunc(max(0, in), func() { f.due <- d })
}

func (f *fleet) deliver(d *processDelivery) {
	d.in = f.processes[f.rng.IntN(len(f.processes))]
	f.acquires++
	d.in.tell(d.task)
}

func (f *fleet) answered(a processAnswer) {
	d := f.open[a.Number]
	switch {
	case d == nil || d.in == nil: // from one that has been killed since
	case a.Err != "":
		f.failed++
		f.later(d, time.Duration(f.rng.Int64N(int64(300*time.Millisecond))))
	case a.Decision.Status == throttle.Deferred:
		f.later(d, a.Decision.Left)
	case a.Decision.Status == throttle.Granted:
		f.log = append(f.log, grant{d.task.User, d.task.ID, d.task.Category, a.Decision.At.UnixMicro()})
		delete(f.open, a.Number)
	default:
		f.t.Errorf("%s: %+v", d.task.ID, a.Decision)
		delete(f.open, a.Number)
	}
}

// replace starts a process in the place of one that was killed, and hands out
// again what that had.
func (f *fleet) replace(p *process) {
	f.kills++
	for i := range f.processes {
		if f.processes[i] == p {
			f.processes[i] = f.start()
		}
	}
	for _, d := range f.open {
		if d.in == p {
			f.later(d, 100*time.Millisecond)
		}
	}
}

// A process is a child that runs runProcess.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	closed atomic.Bool
	gone   chan struct{}
}

func (f *fleet) start() *process {
	setup := processSetup{Address: f.server.Addr(), Seed: f.rng.Uint64(),
		Skew: time.Duration(f.rng.Int64N(int64(10*time.Second))) - 5*time.Second,
		Step: time.Duration(f.rng.Int64N(int64(10*time.Second))) - 5*time.Second}
	if f.kills < 40 && f.rng.IntN(5) > 0 {
		setup.Kill = 0.04
	}
	raw, err := json.Marshal(setup)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0], "-test.run=^TestProcesses$"), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), processVariable+"="+string(raw), "GOMAXPROCS=2")
	p.cmd.Stderr = os.Stderr
	read, write, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	p.cmd.ExtraFiles = []*os.File{write}
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	_ = write.Close()
	if err != nil {
		f.t.Fatal(err)
	}
	go func() {
		defer close(p.gone)
		lines := bufio.NewScanner(read)
		for lines.Scan() {
			var a processAnswer
			if json.Unmarshal(lines.Bytes(), &a) == nil { // the last line may be half a line
				f.answers <- a
			}
		}
		_ = read.Close()
		_ = p.cmd.Wait()
		if !p.closed.Load() {
			f.ended <- p
		}
	}()
	return p
}

func (p *process) tell(task processTask) {
	line, _ := json.Marshal(task)
	_, _ = p.in.Write(append(line, '\n')) // one that is gone is replaced
}

// end has the process end by itself.
func (p *process) end() {
	p.closed.Store(true)
	_ = p.in.Close()
	<-p.gone
}

// runProcess is the child: it acquires what it is told to, until its standard
// input ends or a round trip kills it.
func runProcess(raw string) {
	var setup processSetup
	if err := json.Unmarshal([]byte(raw), &setup); err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: setup.Address, MaxRetries: -1, ContextTimeoutEnabled: true, DialTimeout: time.Second})
	defer client.Close()
	rng := rand.New(rand.NewPCG(setup.Seed, 1))
	var mu sync.Mutex
	client.AddHook(&killer{chance: func() bool {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64() < setup.Kill
	}})
	var looks atomic.Int64
	limiter := throttle.NewRedis(client, throttle.Options{Prefix: "processes", Horizon: 30 * time.Second, Now: func() time.Time {
		now := time.Now().Round(0).Add(setup.Skew)
		if looks.Add(1) > 300 {
			now = now.Add(setup.Step)
		}
		return now
	}})
	defer limiter.Close()
	out := os.NewFile(3, "answers")
	var calls sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var task processTask
		if err := json.Unmarshal(lines.Bytes(), &task); err != nil {
			panic(err)
		}
		calls.Go(func() {
			a := processAnswer{Number: task.Number}
			var err error
			if a.Decision, err = limiter.Acquire(context.Background(), task.request()); err != nil {
				a.Err = err.Error()
			}
			line, _ := json.Marshal(a)
			mu.Lock()
			defer mu.Unlock()
			_, _ = out.Write(append(line, '\n'))
		})
	}
	calls.Wait()
}

// A killer ends its own process in the middle of a round trip.
type killer struct{ chance func() bool }

func (k *killer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (k *killer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return k.around(cmd.Name() == "evalsha", func() error { return next(ctx, cmd) })
	}
}

func (k *killer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return k.around(true, func() error { return next(ctx, cmds) })
	}
}

func (k *killer) around(ours bool, next func() error) error {
	if !ours || !k.chance() {
		return next()
	}
	if rand.IntN(2) == 0 {
		_ = next() // executed, and nobody left to correct it
	} else {
		go func() { _ = next() }() // executed or not
		for wait := time.Now().Add(time.Duration(rand.Int64N(int64(400 * time.Microsecond)))); time.Now().Before(wait); {
		}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
