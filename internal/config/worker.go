package config

import "time"

// Worker says how one process works.
type Worker struct {
	// Pushes in flight from this process to each provider of each app.
	Concurrency int `yaml:"concurrency" default:"256" range:"1..100000"`
	// How long work under way may take to end when the process is asked to stop; longer than any
	// provider's `timeout`.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout" default:"20s" range:"1s..10m"`
	// Sends before a notification is exhausted. Deferrals do not count, nor do sends that fail by a
	// provider in trouble or by the app's configuration: `worker.retry_time` bounds these.
	Attempts int `yaml:"attempts" default:"10" range:"1..1000"`
	// How long after the first attempt the last one may be; quiet hours that hold the notification
	// do not count.
	RetryTime time.Duration `yaml:"retry_time" default:"6h" range:"1s..30d"`
	// How long the same ID is the same notification. A record also stays for an hour after the end,
	// so that a late worker does not send the notification again.
	IDRetention time.Duration `yaml:"id_retention" default:"24h" range:"1h..30d"`
	// How many dead letters each app keeps; each shard has its part. Beyond it the oldest go. One
	// takes about 1.8 kB with its record, so that 10,000 are 18 MB; large ones are bounded by 4 KiB
	// for each that the app may keep. Malformed jobs and unknown apps share the bound of one app.
	DeadLetters int `yaml:"dead_letters" default:"10000" range:"1..1000000"`
	// About how many outcomes each app's stream `PREFIX:outcomes:APP` keeps; 0 keeps none.
	Outcomes int `yaml:"outcomes" default:"0" range:"0,1000..10000000"`
}
