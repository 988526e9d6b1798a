package config

import (
	"errors"
	"log/slog"
)

// Log says what is logged, to standard error.
type Log struct {
	Level  Level     `yaml:"level"`  // info by default
	Format LogFormat `yaml:"format"` // text by default
}

// Level is the least severe level that is logged: debug, info, warn or error.
// The zero value is info.
type Level slog.Level

// UnmarshalText accepts debug, info, warn and error.
func (l *Level) UnmarshalText(text []byte) error {
	switch string(text) {
	case "debug":
		*l = Level(slog.LevelDebug)
	case "info":
		*l = Level(slog.LevelInfo)
	case "warn":
		*l = Level(slog.LevelWarn)
	case "error":
		*l = Level(slog.LevelError)
	default:
		return errors.New("want debug, info, warn or error")
	}
	return nil
}

// Level makes l a slog.Leveler.
func (l Level) Level() slog.Level { return slog.Level(l) }

// LogFormat is how log lines are written.
type LogFormat string

// The formats.
const (
	Text LogFormat = "text"
	JSON LogFormat = "json"
)

// UnmarshalText accepts text and json.
func (f *LogFormat) UnmarshalText(text []byte) error { return oneOf(f, string(text), Text, JSON) }

// SetDefaults sets every field to its default.
func (l *Log) SetDefaults() { *l = Log{Format: Text} }

func (l Log) check(k *check, key string) {
	if l.Format != Text && l.Format != JSON {
		k.fault(join(key, "format"), "want text or json")
	}
}
