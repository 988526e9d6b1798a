// Package config loads the configuration: defaults, then a YAML file, then the
// environment, then checks across fields. An error names the file, line, column
// and key, or the variable, and never shows a value that may be secret or any
// other part of the file.
package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
)

// Config is the whole configuration. Load and Parse return only valid ones.
type Config struct {
	Redis  Redis          `yaml:"redis"`
	Worker Worker         `yaml:"worker"`
	Limits Limits         `yaml:"limits"`
	Apps   map[string]App `yaml:"apps"` // by the name that notifications carry
	HTTP   HTTP           `yaml:"http"` // off by default
	Log    Log            `yaml:"log"`
	// Telemetry is off by default.
	Telemetry Telemetry `yaml:"telemetry"`

	warnings []string
}

// Warnings returns the unknown variables, and the settings that are valid but odd, each with its
// place and key in front. Load and Parse collect the warnings.
func (c *Config) Warnings() []string { return c.warnings }

// SetDefaults sets every field to its default. Redis.Address has no default and is required.
func (c *Config) SetDefaults() {
	*c = Config{}
	setDefaults(reflect.ValueOf(c).Elem())
}

// Validate reports every fault as Faults, by key. Load and Parse call it.
func (c *Config) Validate() error {
	k := new(check)
	c.check(k)
	return k.faults.orNil()
}

func (c *Config) check(k *check) {
	c.Redis.check(k, "redis")
	c.Limits.check(k, "limits")
	for name, app := range c.Apps {
		app.check(k, join("apps", name), c.Worker)
	}
	c.checkQuotas(k)
	c.HTTP.check(k, "http", slices.Sorted(maps.Keys(c.Apps)))
	k.checkTags(c)
}

// odd collects settings that are valid, but probably a mistake.
func (c *Config) odd(k *check) {
	c.Limits.odd(k, "limits")
	if len(c.Apps) == 0 {
		k.fault("apps", "there is none: nothing can be sent")
	}
	if most := (len(c.Apps) + 1) * c.Worker.DeadLetters; c.HTTP.Listen != "" && most >= c.HTTP.MaxQueue { // the 1 is for jobs of no app
		k.fault("http.max_queue", fmt.Sprintf("counts dead letters: at worker.dead_letters, %d, those of all apps are %d, and the API takes no more notifications; lower worker.dead_letters or raise http.max_queue", c.Worker.DeadLetters, most))
	}
	for name, remedy := range c.UnnamedQuotas() {
		k.fault(join("limits.quotas", name), "bounds nothing: "+remedy)
	}
	for name, app := range c.Apps {
		for _, p := range app.Providers() {
			if p.DryRun {
				k.fault(join("apps", name, string(p.Platform), "dry_run"), "is on: nothing that the app sends there reaches a device")
			}
		}
	}
}

// check collects faults by key.
type check struct {
	faults Faults
	// origin has the place of each key; nil if the places are unknown.
	origin map[string]Fault
}

// at returns the key's line as in " on line 3", or "" if it is unknown.
func (k *check) at(key string) string {
	if line := k.origin[key].Line; line > 0 {
		return fmt.Sprintf(" on line %d", line)
	}
	return ""
}

// found adds a validator's faults of the value at key.
func (k *check) found(key string, err error) {
	for _, f := range fielderrors.Of(err) {
		if f.Field == "" {
			k.fault(key, f.Problem)
		} else {
			k.fault(join(key, f.Field), f.Problem)
		}
	}
}

func (k *check) fault(key, message string) {
	k.faults = append(k.faults, Fault{Key: key, Message: message})
}
