//go:build unix

package cli

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/app"
	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// A scripted is a script that runs, with the processes and servers that it has started.
type scripted struct {
	testing.TB
	dir      string
	shell    *shell
	client   *redis.Client // nil before the script's command redis
	standIns *app.StandIns // nil before simulate
	serves   []*served
	newest   time.Duration // from the first dead letter to the newest
}

// A shell is a process that runs pushpace's commands one after another: a process for each
// command would take ten times as long.
type shell struct {
	*exec.Cmd
	in       io.Closer
	commands *json.Encoder
	statuses *json.Decoder
}

// A shellCommand is a command for a shell. Input and output are files in the shell's folder.
type shellCommand struct{ Env, Args []string }

// runShell is the shell's main function.
func runShell() {
	commands, statuses := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var c shellCommand
		if commands.Decode(&c) != nil {
			return
		}
		os.Clearenv()
		for _, entry := range c.Env {
			key, value, _ := strings.Cut(entry, "=")
			_ = os.Setenv(key, value) // fails for names that only sh accepts
		}
		os.Stdin, _ = os.Open(".stdin")
		os.Stdout, _ = os.Create(".stdout")
		os.Stderr, _ = os.Create(".stderr")
		status := Run(c.Args)
		for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
			_ = f.Close()
		}
		if statuses.Encode(status) != nil {
			return
		}
	}
}

// A served is a process of pushpace serve.
type served struct {
	*exec.Cmd
	ended chan error
}

// scriptTokens are the API's tokens in scripts, by role. No command may print them.
var scriptTokens = map[string]string{"operator": "operator-hunter2", "viewer": "viewer-hunter2"}

// TestScripts runs the scripts of testdata/script, which type commands and match their
// output. Each has its own folder, with the shipped configuration or its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs the program")
	}
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for name, f := range map[string]func(*scripted, *testscript.TestScript, []string){
		"redis": (*scripted).redis, "simulate": (*scripted).simulate, "serve": (*scripted).serve, "reload": (*scripted).reload, "end": (*scripted).end,
		"run": (*scripted).run, "fails": fault(exitFailed), "misuse": fault(exitUsage), "api": (*scripted).throughAPI, "same": (*scripted).same,
		"until": (*scripted).until, "settled": (*scripted).settled, "pushes": (*scripted).pushes, "letters": (*scripted).letters,
		"logged": (*scripted).logged,
	} {
		commands[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg {
				ts.Fatalf("%s takes no !", name)
			}
			f(ts.Value(scriptKey{}).(*scripted), ts, args)
		}
	}
	testscript.Run(t, testscript.Params{Dir: filepath.Join("testdata", "script"), Setup: setUpScript, Cmds: commands, RequireUniqueNames: true})
}

type scriptKey struct{}

func setUpScript(e *testscript.Env) error {
	s := &scripted{TB: e.T().(testing.TB), dir: e.WorkDir}
	var err error
	if s.shell, err = startShell(s.dir); err != nil {
		return err
	}
	e.Values[scriptKey{}] = s
	e.Setenv("HOME", e.WorkDir)
	e.Setenv("TOKEN", scriptTokens["operator"])
	e.Defer(func() { s.close(e.Getenv("TMPDIR")) })
	file := filepath.Join(s.dir, "config.yaml")
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	tokens := "\nhttp:\n  tokens:\n"
	for _, role := range slices.Sorted(maps.Keys(scriptTokens)) {
		tokens += fmt.Sprintf("    - {name: %s, role: %s, sha256: %x}\n", role, role, sha256.Sum256([]byte(scriptTokens[role])))
	}
	return os.WriteFile(file, []byte(strings.Replace(string(pushpace.ConfigYAML), "\nhttp:\n", tokens, 1)), 0o600)
}

func startShell(dir string) (*shell, error) {
	cmd := exec.Command("pushpace-shell")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &shell{cmd, in, json.NewEncoder(in), json.NewDecoder(out)}, cmd.Start()
}

// close ends all processes and servers. It fails the script if the temporary folder is not
// empty.
func (s *scripted) close(temporary string) {
	if err := s.stop(); err != nil {
		s.Error(err)
	}
	if s.standIns != nil {
		_ = s.standIns.Close()
	}
	_ = s.shell.in.Close()
	if err := s.shell.Wait(); err != nil {
		s.Errorf("the shell: %v", err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		s.Errorf("left behind: %v, %v", left, err)
	}
}

// redis gives the script a database of its own. With arguments it sends a command to that
// Redis, and prints the reply.
func (s *scripted) redis(ts *testscript.TestScript, args []string) {
	if len(args) > 0 {
		command := make([]any, len(args))
		for i, arg := range args {
			command[i] = arg
		}
		reply, err := s.client.Do(s.Context(), command...).Result()
		ts.Check(err)
		_, _ = fmt.Fprintln(ts.Stdout(), reply)
		return
	}
	s.client = redistest.Own(s)
	ts.Setenv("PUSHPACE_REDIS__ADDRESS", s.client.Options().Addr)
	ts.Setenv("PUSHPACE_REDIS__DB", strconv.Itoa(s.client.Options().DB))
	for _, key := range []string{"REDIS__TIMEOUT", "REDIS__DIAL_TIMEOUT", "HTTP__TIMEOUT", "HTTP__READ_TIMEOUT"} {
		ts.Setenv("PUSHPACE_"+key, "30s") // for a machine that stalls
	}
}

// simulate starts stand-ins for the providers of the app demo. With an argument, FCM's
// token server refuses every request for that reason.
func (s *scripted) simulate(ts *testscript.TestScript, args []string) {
	if s.standIns != nil {
		ts.Check(s.standIns.Close())
	}
	var err error
	s.standIns, err = app.StartStandIns(s.TempDir(), func(*app.Platform) app.StandInOptions { return app.StandInOptions{} })
	ts.Check(err)
	if len(args) > 0 {
		s.standIns.Servers[push.FCM].(*fcmtest.Server).TokenScript.RespondAlways(standin.Answer{Status: http.StatusBadRequest, Reason: args[0]})
	}
	for _, setting := range s.standIns.Settings("demo") {
		key, value, _ := strings.Cut(setting, "=")
		ts.Setenv(key, value)
	}
}

// serve starts pushpace serve with these arguments. Its log is serve.log, its API at $API.
func (s *scripted) serve(ts *testscript.TestScript, args []string) {
	const serving = "msg=serving"
	ts.Check(ts.Exec("sh", "-c", "env >.env; touch serve.log"))
	before := strings.Count(ts.ReadFile("serve.log"), serving)
	log, err := os.OpenFile(filepath.Join(s.dir, "serve.log"), os.O_APPEND|os.O_WRONLY, 0)
	ts.Check(err)
	defer log.Close()
	p := &served{exec.Command("pushpace", append([]string{"serve"}, args...)...), make(chan error, 1)}
	p.Dir, p.Stderr = s.dir, log
	p.Env = append(strings.Split(ts.ReadFile(".env"), "\n"), "PUSHPACE_HTTP__LISTEN=127.0.0.1:0")
	ts.Check(p.Start())
	go func() { p.ended <- p.Wait() }()
	s.serves = append(s.serves, p)
	if !eventually.Within(eventually.Patience, func() bool {
		return len(p.ended) > 0 || strings.Count(ts.ReadFile("serve.log"), serving) > before
	}) || len(p.ended) > 0 {
		ts.Fatalf("serve does not start:\n%s", ts.ReadFile("serve.log"))
	}
	if at := regexp.MustCompile(`msg=api url=(\S+)`).FindAllStringSubmatch(ts.ReadFile("serve.log"), -1); at != nil {
		ts.Setenv("API", at[len(at)-1][1])
	}
}

// reload makes the processes of serve load their configuration again.
func (s *scripted) reload(ts *testscript.TestScript, _ []string) {
	for _, p := range s.serves {
		ts.Check(p.Process.Signal(syscall.SIGHUP))
	}
}

// end stops all processes of serve.
func (s *scripted) end(ts *testscript.TestScript, _ []string) { ts.Check(s.stop()) }

func (s *scripted) stop() error {
	var errs []error
	for _, p := range s.serves {
		_ = p.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-p.ended:
			errs = append(errs, err)
		case <-time.After(eventually.Patience):
			_ = p.Process.Kill()
			errs = append(errs, errors.New("serve does not end"), <-p.ended)
		}
	}
	s.serves = nil
	return errors.Join(errs...)
}

// run runs pushpace. It expects the exit status in the first argument, if that is a number, else 0.
func (s *scripted) run(ts *testscript.TestScript, args []string) {
	want, got := exitDone, 0
	if n, err := strconv.Atoi(args[0]); err == nil {
		want, args = n, args[1:]
	}
	ts.Check(ts.Exec("sh", "-c", "env >.env; exec cat >.stdin"))
	ts.Check(s.shell.commands.Encode(shellCommand{strings.Split(ts.ReadFile(".env"), "\n"), args}))
	ts.Check(s.shell.statuses.Decode(&got))
	ts.Check(ts.Exec("sh", "-c", "cat .stdout; exec cat .stderr >&2"))
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
	if strings.Contains(ts.ReadFile("stdout")+ts.ReadFile("stderr"), "hunter2") {
		ts.Fatalf("a secret is printed")
	}
}

// fault returns a command that runs pushpace and expects the exit status, a fault that
// matches the first argument, and no other output. The other arguments are pushpace's.
func fault(status int) func(*scripted, *testscript.TestScript, []string) {
	return func(s *scripted, ts *testscript.TestScript, args []string) {
		s.run(ts, append([]string{strconv.Itoa(status)}, args[1:]...))
		if !regexp.MustCompile("(?m)"+args[0]).MatchString(ts.ReadFile("stderr")) || ts.ReadFile("stdout") != "" {
			ts.Fatalf("the fault does not match %s", args[0])
		}
	}
}

// throughAPI is run through the API with $TOKEN.
func (s *scripted) throughAPI(ts *testscript.TestScript, args []string) {
	ts.Setenv(apiVariable, ts.Getenv("API"))
	ts.Setenv(tokenVariable, ts.Getenv("TOKEN"))
	defer ts.Setenv(apiVariable, "")
	s.run(ts, args)
}

// same runs pushpace on Redis and then through the API. Both must print the same.
func (s *scripted) same(ts *testscript.TestScript, args []string) {
	s.run(ts, args)
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	s.throughAPI(ts, args)
	if stdout != ts.ReadFile("stdout") || stderr != ts.ReadFile("stderr") {
		ts.Fatalf("on Redis it printed\n%s%s", stdout, stderr)
	}
}

// until repeats run with the arguments after the first, until the output matches the first one.
func (s *scripted) until(ts *testscript.TestScript, args []string) {
	want := regexp.MustCompile("(?m)" + args[0])
	if !eventually.Within(eventually.Patience, func() bool {
		s.run(ts, args[1:])
		return want.MatchString(ts.ReadFile("stdout") + ts.ReadFile("stderr"))
	}) {
		ts.Fatalf("it never prints %s", want)
	}
}

// logged waits until serve.log matches.
func (s *scripted) logged(ts *testscript.TestScript, args []string) {
	want := regexp.MustCompile(args[0])
	if !eventually.Within(eventually.Patience, func() bool { return want.MatchString(ts.ReadFile("serve.log")) }) {
		ts.Fatalf("%s is not in\n%s", want, ts.ReadFile("serve.log"))
	}
}

// settled waits until that number of notifications has ended.
func (s *scripted) settled(ts *testscript.TestScript, args []string) {
	want, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	records := store.NewRecords(s.client, "", 0)
	if !eventually.Within(eventually.Patience, func() bool {
		counts, err := records.Counts(s.Context())
		ts.Check(err)
		var ended int64
		for _, n := range counts.Ended {
			ended += n
		}
		return ended == want
	}) {
		ts.Fatalf("%d have not ended", want)
	}
}

// pushes expects the number of pushes that the stand-ins have accepted.
func (s *scripted) pushes(ts *testscript.TestScript, args []string) {
	n := 0
	for _, server := range s.standIns.Servers {
		n += server.Ledger().Len()
	}
	if strconv.Itoa(n) != args[0] {
		ts.Fatalf("%d pushes", n)
	}
}

// letters N PREFIX USER CATEGORY REASON adds N dead letters, PREFIX-1 the oldest. All are
// newer than earlier ones, and at most half an hour old.
func (s *scripted) letters(ts *testscript.TestScript, args []string) {
	many, err := strconv.Atoi(args[0])
	ts.Check(err)
	shards, _ := strconv.Atoi(ts.Getenv("PUSHPACE_REDIS__SHARDS"))
	at, err := store.NewRecords(s.client, "", 0).WithShards(shards).Of(s.Context(), "demo", args[2])
	ts.Check(err)
	for i := range many {
		n := &push.Notification{ID: fmt.Sprintf("%s-%d", args[1], i+1), App: "demo", User: args[2], Category: args[3], Title: "Hello", Targets: []push.Target{
			{Platform: push.FCM, Token: "a-token"}, {Platform: push.APNs, Token: "00fc"}, {Platform: push.FCM, Token: "another"},
		}}
		job, err := push.Encode(&push.Job{Notification: n, AcceptedAt: time.Now()})
		ts.Check(err)
		s.newest += time.Second
		ts.Check(at.SetAside(s.Context(), &store.Letter{
			ID: n.ID, State: store.Malformed, Reason: args[4], Outcomes: push.Unsent(n.Targets),
			At: time.Now().Add(s.newest - 30*time.Minute), Queue: push.Default.Queue(), Job: job,
		}))
	}
}
