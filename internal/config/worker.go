package config

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/store"
)

// Worker says how one process works.
type Worker struct {
	// Concurrency is how many notifications are in flight at once to each
	// provider of each app. 256 by default, 1 to 100,000.
	Concurrency int `yaml:"concurrency"`
	// ShutdownTimeout is how long jobs under way may take to end when the
	// process is asked to stop. 20 s by default, 1 s to 10 min.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout"`
	// Attempts is how often a notification is sent before it is exhausted.
	// Deferrals do not count. 10 by default, 1 to 1,000.
	Attempts int `yaml:"attempts"`
	// RetryTime is how long after the first attempt the last may be, without the quiet hours
	// that hold the notification meanwhile. 6 h by default, 1 s to 30 days.
	RetryTime time.Duration `yaml:"retry_time"`
	// IDRetention is how long an ID is known. 24 h by default, 1 h to 30 days: for an
	// hour after its end a notification's record keeps late workers from sending it again.
	IDRetention time.Duration `yaml:"id_retention"`
	// DeadLetters is how many dead letters of an app are kept. 10,000 by default, 1 to
	// 1,000,000.
	DeadLetters int `yaml:"dead_letters"`
	// DeadTokens is about how many reports of an app's dead tokens are kept for producers.
	// 100,000 by default, 1,000 to 10,000,000.
	DeadTokens int `yaml:"dead_tokens"`
	// Outcomes is about how many reports of the ends of an app's notifications are kept for
	// producers. 0, the default, keeps none; otherwise 1,000 to 10,000,000.
	Outcomes int `yaml:"outcomes"`
}

const month = 30 * 24 * time.Hour

// SetDefaults sets every field to its default.
func (w *Worker) SetDefaults() {
	*w = Worker{
		Concurrency:     256,
		ShutdownTimeout: 20 * time.Second,
		Attempts:        10,
		RetryTime:       6 * time.Hour,
		IDRetention:     24 * time.Hour,
		DeadLetters:     store.DefaultDeadLetters,
		DeadTokens:      store.DefaultDeadTokens,
	}
}

func (w Worker) check(k *check, key string) {
	k.integer(join(key, "concurrency"), w.Concurrency, 1, 100_000)
	k.integer(join(key, "attempts"), w.Attempts, 1, 1000)
	k.duration(join(key, "shutdown_timeout"), w.ShutdownTimeout, time.Second, 10*time.Minute)
	k.duration(join(key, "retry_time"), w.RetryTime, time.Second, month)
	k.duration(join(key, "id_retention"), w.IDRetention, time.Hour, month)
	k.integer(join(key, "dead_letters"), w.DeadLetters, 1, 1_000_000)
	k.integer(join(key, "dead_tokens"), w.DeadTokens, 1000, 10_000_000)
	if w.Outcomes != 0 {
		k.integer(join(key, "outcomes"), w.Outcomes, 1000, 10_000_000)
	}
}

// LogValue describes w for a log.
func (w Worker) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("concurrency", w.Concurrency),
		slog.Int("attempts", w.Attempts),
		slog.Duration("retry_time", w.RetryTime),
		slog.Duration("shutdown_timeout", w.ShutdownTimeout),
	)
}

func (k *check) integer(key string, n, least, most int) {
	if n < least || n > most {
		k.fault(key, fmt.Sprintf("is %d; want %d to %d", n, least, most))
	}
}

func (k *check) duration(key string, d, least, most time.Duration) {
	if d < least || d > most {
		k.fault(key, fmt.Sprintf("is %s; want %s to %s", d, least, most))
	}
}
