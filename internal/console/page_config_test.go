package console

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/access"
	"github.com/pushpace/pushpace/internal/config"
)

var testConfiguration = Configuration{
	File: "/etc/pushpace/config.yaml", Loaded: noon, Refused: errors.New("apps.mail.apns.key_file: is missing").Error(), Warnings: []string{"mail is odd"},
	Waiting: []config.Change{{Key: "worker.lanes", From: "4", To: "2"}, {Key: "apps.mail.apns.topic", From: "a", To: "b"}, {Key: "limits.quotas.eu", From: "none", To: "set"}},
	Settings: []Setting{
		{"redis.address", "redis.example:6379", ""}, {"worker.lanes", "2", ""}, {"limits.default.min_gap", "1s", ""}, {"limits.quotas.eu.apps", "mail, shop", ""},
		{"apps.mail.apns.topic", "b", "mail"}, {"apps.shop.simulated", "true", "shop"}, {"apps.shop.fcm.project_id", "p", "shop"}, {"http.listen", ":1", ""},
	},
}

// What is in force is grouped by section and app, and of a bearer of some apps what is
// theirs or everybody's.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		who      access.Bearer
		sentence string
		want     string
	}{
		{
			access.Bearer{}, "What is in force is of /etc/pushpace/config.yaml and the environment, as it was loaded at 12:00; 3 keys wait for a restart; a newer version of the file is refused; this process sends nothing, and has no credentials.",
			"redis 1, worker 1, limits 2, app mail 1, app shop 2, http 1 | worker.lanes apps.mail.apns.topic limits.quotas.eu | apps.mail.apns.key_file: is missing | mail is odd",
		},
		{
			access.Bearer{Apps: []string{"shop"}}, "What is in force is of /etc/pushpace/config.yaml and the environment, as it was loaded at 12:00; 1 key waits for a restart; a newer version of the file is refused; this process sends nothing, and has no credentials.",
			"worker 1, limits 1, app shop 2 | worker.lanes | The log says why. | ",
		},
	} {
		view := viewOfConfiguration(testConfiguration, c.who)
		if got := said(view.Sentence); got != c.sentence {
			t.Error(got)
		}
		var groups, keys []string
		for _, g := range view.Groups {
			groups = append(groups, fmt.Sprint(g.Name, " ", len(g.Settings)))
		}
		for _, w := range view.Waiting {
			keys = append(keys, w.Key)
		}
		if got := strings.Join([]string{strings.Join(groups, ", "), strings.Join(keys, " "), view.Refused, strings.Join(view.Warnings, " ")}, " | "); got != c.want {
			t.Errorf("%v: %s", c.who.Apps, got)
		}
	}
	if len(testConfiguration.Waiting) != 3 || testConfiguration.Settings[0].Key != "redis.address" {
		t.Error("what one bearer sees changes what the next one does")
	}
}

func TestConfigPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Configuration = func() Configuration { return testConfiguration } })
	text := r.get(http.StatusOK, "/console/config")
	for _, want := range []string{"redis.example:6379", "app mail", "3 keys wait for a restart", "apps.mail.apns.key_file: is missing"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if failures := strings.Join(ofClass(t, text, "fault"), "\n"); strings.Contains(failures, "worker.lanes") || !strings.Contains(failures, "key_file") {
		t.Errorf("failures:\n%s", failures)
	}
}
