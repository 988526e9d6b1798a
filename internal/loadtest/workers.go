//go:build unix

package loadtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/pushpace/pushpace/internal/base/subprocess"
)

// workers run one worker at a time, as a process of this program.
type workers struct {
	args, environ []string
	log           string // the file of their logs
	process       *subprocess.Process
	used          subprocess.Usage // by ended processes: the sum of their CPU time, the largest RSS
}

// start starts a worker.
func (w *workers) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(w.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self, w.args...)
	cmd.Env, cmd.Stderr = w.environ, log
	w.process, err = subprocess.Start(cmd)
	return err
}

// kill kills the worker, if one runs.
func (w *workers) kill() {
	if w.process == nil {
		return
	}
	used := w.process.Kill()
	w.process = nil
	w.used.CPU += used.CPU
	w.used.RSS = max(w.used.RSS, used.RSS)
}

// stopLimit is how long a worker may take to stop.
const stopLimit = 30 * time.Second

// stop ends the worker after its pushes in flight.
func (w *workers) stop() error {
	defer w.kill()
	if err := w.process.Signal(syscall.SIGTERM); err != nil {
		return w.failed()
	}
	for end := time.Now().Add(stopLimit); !w.process.Exited(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("the worker does not stop within %s%s", stopLimit, w.lastLog())
		}
	}
	return nil
}

// failed returns an error if the worker has ended by itself.
func (w *workers) failed() error {
	if w.process == nil || !w.process.Exited() {
		return nil
	}
	return errors.New("the worker ended by itself" + w.lastLog())
}

// lastLog returns the end of the workers' log, for an error.
func (w *workers) lastLog() string {
	file, err := os.Open(w.log)
	if err != nil {
		return ""
	}
	defer file.Close()
	const most = 1000
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, _ = file.Seek(-most, io.SeekEnd)
	}
	text, _ := io.ReadAll(file)
	if len(text) == 0 {
		return ""
	}
	return "; its log says:\n" + strings.TrimSpace(string(text))
}
