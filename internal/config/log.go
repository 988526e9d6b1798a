package config

import "log/slog"

// Log configures the log, on standard error.
type Log struct {
	// The least severe level that is [logged](running.md#log).
	Level Level `yaml:"level" default:"info" oneof:"debug info warn error" reload:"at once"`
	// The form of the lines.
	Format LogFormat `yaml:"format" default:"text" oneof:"text json"`
}

// Level is a level of log/slog in small letters. The zero value is info.
type Level string

// Level makes l a slog.Leveler.
func (l Level) Level() (level slog.Level) {
	_ = level.UnmarshalText([]byte(l)) // Validate has refused an unknown level
	return level
}

// LogFormat is how log lines are written.
type LogFormat string

// The formats.
const (
	Text LogFormat = "text"
	JSON LogFormat = "json"
)
