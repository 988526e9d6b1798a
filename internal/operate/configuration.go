package operate

import (
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/config"
)

// A Configuration is what a process runs with, without secrets.
type Configuration struct {
	// File is where it is from, besides the environment, and Loaded when it was last.
	File   string
	Loaded time.Time
	// Refused is why a newer version of the file was not taken over; "" when it was.
	Refused string
	// Waiting are the keys that take effect at the next start.
	Waiting []config.Change
	// Settings are all that is in the file and in the environment, Waiting's included,
	// or is the default.
	Settings []Configured
	Warnings []string
	// Sends says that the process sends, and has the credentials for it.
	Sends bool
}

// A Configured is a key with its value, and the app that it is about; "" for none.
type Configured struct{ Key, Value, App string }

// everybodys are the sections that concern every app's notifications.
var everybodys = []string{"worker", "limits"}

// Configuration returns what of the configuration it sees, and does not change the one
// given. What is refused and warned of is not told by app.
func (o *Operator) Configuration(c Configuration) (Configuration, error) {
	if err := o.may(Look); err != nil {
		return Configuration{}, err
	}
	if o.SeesAll() {
		return c, nil
	}
	c.Waiting = slices.DeleteFunc(slices.Clone(c.Waiting), func(w config.Change) bool { return !o.seesKey(w.Key) })
	c.Settings = slices.DeleteFunc(slices.Clone(c.Settings), func(s Configured) bool {
		return s.App != "" && !o.Sees(s.App) || s.App == "" && !o.seesKey(s.Key)
	})
	c.Warnings = nil
	if c.Refused != "" {
		c.Refused = "The log says why."
	}
	return c, nil
}

// seesKey reports whether a bearer of some apps sees a key: what is of another app, and
// who else shares a quota, is not for it.
func (o *Operator) seesKey(key string) bool {
	if config.Within(key, "limits.quotas") || config.Within(key, "limits.redis") {
		return false
	}
	for _, app := range o.who.Apps {
		if config.Within(key, config.Join("apps", app)) {
			return true
		}
	}
	return slices.ContainsFunc(everybodys, func(section string) bool { return config.Within(key, section) })
}
