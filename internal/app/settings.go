package app

import (
	"context"
	"errors"
	"io/fs"
	stdlog "log"
	"log/slog"
	"os"
	"strings"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redisconn"
)

// configFile is the configuration file in the working directory.
const configFile = "config.yaml"

// FindConfig returns the name of the configuration file. A file is required: with a default
// configuration, a mistyped name would lead to the embedded Redis.
func FindConfig(flag string) (string, error) {
	file := flag
	if file == "" {
		file = os.Getenv("PUSHPACE_CONFIG")
	}
	if file == "" {
		file = configFile
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return "", Misusedf("there is no %s in the working directory: name the configuration by --config or PUSHPACE_CONFIG", file)
		}
	}
	return file, nil
}

// LoadConfig loads the configuration and returns the name of its file.
func LoadConfig(flag string) (*config.Config, string, error) {
	file, err := FindConfig(flag)
	if err != nil {
		return nil, "", err
	}
	cfg, err := config.Load(file, os.Environ())
	return cfg, file, Misused(err)
}

// LoadReachable is LoadConfig for a command that reaches the workers through
// Redis, and so refuses the embedded Redis.
func LoadReachable(flag string) (*config.Config, error) {
	cfg, file, err := LoadConfig(flag)
	if err != nil {
		return nil, err
	}
	if cfg.Redis.Address.Mode == config.Embedded {
		return nil, Misusedf("%s: redis.address: the embedded Redis lives inside another process, out of reach: "+
			"name a server there or in PUSHPACE_REDIS__ADDRESS, for serve too", file)
	}
	return cfg, nil
}

// AppsOf returns the configuration's apps.
func AppsOf(cfg *config.Config) operate.Apps {
	if len(cfg.Apps) == 0 {
		return nil
	}
	apps := operate.Apps{}
	for name, app := range cfg.Apps {
		apps[name] = operate.App{Platforms: app.Platforms(), Hosts: app.Hosts()}
	}
	return apps
}

// NewLogger returns the process's logger, which also receives the logs of libraries. Its level
// can be changed.
func NewLogger(cfg config.Log, level *slog.LevelVar) *slog.Logger {
	level.Set(cfg.Level.Level())
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(os.Stderr, options)
	if cfg.Format == config.JSON {
		handler = slog.NewJSONHandler(os.Stderr, options)
	}
	log := slog.New(handler)
	slog.SetDefault(log)
	stdlog.SetOutput(librariesLog{log})
	redisconn.LogTo(log)
	return log
}

// librariesLog takes the lines that libraries write to the standard logger.
type librariesLog struct{ log *slog.Logger }

// unsolicited is the start of net/http's log line about data after an answer, such as the body of
// a 204. The rest quotes the peer's text, which may name an endpoint.
const unsolicited = "Unsolicited response received on idle HTTP channel"

// Write takes one line.
func (l librariesLog) Write(line []byte) (int, error) {
	level, text := slog.LevelInfo, strings.TrimSuffix(string(line), "\n")
	if strings.HasPrefix(text, unsolicited) {
		level, text = slog.LevelDebug, unsolicited
	}
	l.log.Log(context.Background(), level, text)
	return len(line), nil
}
