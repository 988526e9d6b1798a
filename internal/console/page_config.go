package console

import (
	"context"
	"strings"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/words"
)

// A configView is what config.html shows.
type configView struct {
	operate.Configuration
	Sentence words.Sentence
	Groups   []settings
}

// settings are those of a section, or of an app.
type settings struct {
	Name     string
	Settings []operate.Configured
}

func (c *Console) configPage(_ context.Context, v *visit) (page, error) {
	its, err := v.as.Configuration(c.o.Configuration())
	if err != nil {
		return page{}, err
	}
	return page{name: "config", title: "Configuration", live: true, data: viewOfConfiguration(its)}, nil
}

func viewOfConfiguration(c operate.Configuration) configView {
	view := configView{Configuration: c}
	clauses := []words.Sentence{words.Say("what is in force is of ", words.Printable(c.File), " and the environment, as it was loaded at ", c.Loaded)}
	if n := int64(len(c.Waiting)); n > 0 {
		clauses = append(clauses, words.Say(counted(n, "key waits", "keys wait")+" for a restart"))
	}
	if c.Refused != "" {
		clauses = append(clauses, words.Say("a newer version of the file is refused"))
	}
	if !c.Sends {
		clauses = append(clauses, words.Say("this process sends nothing, and has no credentials"))
	}
	view.Sentence = words.Clauses(clauses...)
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
