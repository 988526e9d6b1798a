package console

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/access"
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
	Settings []Setting
	Warnings []string
	// Sends says that the process sends, and has the credentials for it.
	Sends bool
}

// A Setting is a key with its value, and the app that it is about; "" for none.
type Setting struct{ Key, Value, App string }

// A configView is what config.html shows.
type configView struct {
	Configuration
	Sentence []phrase
	Groups   []settings
}

// settings are those of a section, or of an app.
type settings struct {
	Name     string
	Settings []Setting
}

func (c *Console) configPage(_ context.Context, v *visit) (page, error) {
	return page{name: "config", title: "Configuration", live: true, data: viewOfConfiguration(c.o.Configuration(), v.who)}, nil
}

// everybodys are the sections that concern every app's notifications.
var everybodys = []string{"worker", "limits"}

func viewOfConfiguration(c Configuration, who access.Bearer) configView {
	if who.Apps != nil {
		c.Waiting = slices.DeleteFunc(slices.Clone(c.Waiting), func(w config.Change) bool { return !seesKey(who, w.Key) })
		c.Settings = slices.DeleteFunc(slices.Clone(c.Settings), func(s Setting) bool {
			return s.App != "" && !who.Sees(s.App) || s.App == "" && !seesKey(who, s.Key)
		})
		c.Warnings = nil
		if c.Refused != "" {
			c.Refused = "The log says why."
		}
	}
	view := configView{Configuration: c}
	clauses := [][]phrase{{{Text: "what is in force is of ", Name: c.File}, {Text: " and the environment, as it was loaded at ", At: c.Loaded}}}
	if n := int64(len(c.Waiting)); n > 0 {
		clauses = append(clauses, []phrase{{Text: counted(n, "key waits", "keys wait") + " for a restart"}})
	}
	if c.Refused != "" {
		clauses = append(clauses, []phrase{{Text: "a newer version of the file is refused"}})
	}
	if !c.Sends {
		clauses = append(clauses, []phrase{{Text: "this process sends nothing, and has no credentials"}})
	}
	view.Sentence = joined(clauses)
	for _, s := range c.Settings {
		name, _, _ := strings.Cut(s.Key, ".")
		if s.App != "" {
			name = "app " + s.App
		}
		if n := len(view.Groups); n == 0 || view.Groups[n-1].Name != name {
			view.Groups = append(view.Groups, settings{Name: name})
		}
		last := &view.Groups[len(view.Groups)-1]
		last.Settings = append(last.Settings, s)
	}
	return view
}

// seesKey reports whether a bearer of some apps sees a key: what is of another app, and
// who else shares a quota, is not for it.
func seesKey(who access.Bearer, key string) bool {
	if config.Within(key, "limits.quotas") || config.Within(key, "limits.redis") {
		return false
	}
	for _, app := range who.Apps {
		if config.Within(key, config.Join("apps", app)) {
			return true
		}
	}
	return slices.ContainsFunc(everybodys, func(section string) bool { return config.Within(key, section) })
}
