package config

import "time"

// Worker configures the work of one process.
type Worker struct {
	// Pushes in flight from a process to each provider of each app.
	Concurrency int `yaml:"concurrency" default:"256" range:"1..100000"`
	// The longest time to finish work when the process stops; longer than any provider's `timeout`.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout" default:"20s" range:"1s..10m"`
	// The number of sends after which a notification ends as exhausted. Failures of a provider in
	// trouble, or by the app's configuration, do not count: `retry_time` limits them.
	Attempts int `yaml:"attempts" default:"10" range:"1..1000"`
	// The longest time from the first attempt to the last, without quiet hours that hold the
	// notification.
	RetryTime time.Duration `yaml:"retry_time" default:"6h" range:"1s..30d"`
	// How long the same ID is the same notification. Its record stays for at least an hour after
	// the end, so that a late worker does not send it again.
	IDRetention time.Duration `yaml:"id_retention" default:"24h" range:"1h..30d"`
	// The newest dead letters that each app keeps, divided among the shards. 10,000 take about 18 MB;
	// large ones are bounded by 4 KiB times this number. Malformed jobs and unknown apps share the
	// bound of one app.
	DeadLetters int `yaml:"dead_letters" default:"10000" range:"1..1000000"`
	// About how many outcomes each app's [stream](webhooks.md) keeps; 0 for none.
	Outcomes int `yaml:"outcomes" default:"0" range:"0,1000..10000000"`
}
