package console

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
)

var testConfiguration = operate.Configuration{
	File: "/etc/pushpace/config.yaml", Loaded: noon, Refused: errors.New("apps.mail.apns.key_file: is missing").Error(), Warnings: []string{"mail is odd"},
	Waiting: []config.Change{{Key: "worker.attempts", From: "10", To: "2"}, {Key: "apps.mail.apns.topic", From: "a", To: "b"}, {Key: "limits.quotas.eu", From: "none", To: "set"}},
	Settings: []operate.Configured{
		{Key: "redis.address", Value: "redis.example:6379"}, {Key: "worker.attempts", Value: "2"}, {Key: "limits.default.min_gap", Value: "1s"}, {Key: "limits.quotas.eu.apps", Value: "mail, shop"},
		{Key: "apps.mail.apns.topic", Value: "b", App: "mail"}, {Key: "apps.shop.simulated", Value: "true", App: "shop"}, {Key: "apps.shop.fcm.project_id", Value: "p", App: "shop"}, {Key: "http.listen", Value: ":1"},
	},
}

// What is in force is grouped by section and app.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	view := viewOfConfiguration(testConfiguration)
	if got := said(view.Sentence); got != "What is in force is of /etc/pushpace/config.yaml and the environment, as it was loaded at 12:00; 3 keys wait for a restart; a newer version of the file is refused; this process sends nothing, and has no credentials." {
		t.Error(got)
	}
	var groups []string
	for _, g := range view.Groups {
		groups = append(groups, fmt.Sprint(g.Name, " ", len(g.Settings)))
	}
	if got := strings.Join(groups, ", "); got != "redis 1, worker 1, limits 2, app mail 1, app shop 2, http 1" {
		t.Error(got)
	}
}

// A bearer of some apps is shown what is theirs or everybody's.
func TestConfigurationOfSomeApps(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *setting) { o.Configuration = func() operate.Configuration { return testConfiguration } })
	_, text := r.ofApps([]string{"shop"}, http.MethodGet, "/console/config", nil)
	contains(t, text, "1 key waits for a restart", "a newer version of the file is refused", "The log says why.", "worker.attempts", "app shop")
	lacks(t, text, "mail", "redis.example", "limits.quotas")
}

func TestConfigPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *setting) { o.Configuration = func() operate.Configuration { return testConfiguration } })
	text := r.get(http.StatusOK, "/console/config")
	for _, want := range []string{"redis.example:6379", "app mail", "3 keys wait for a restart", "apps.mail.apns.key_file: is missing"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if failures := strings.Join(ofClass(t, text, "fault"), "\n"); strings.Contains(failures, "worker.attempts") || !strings.Contains(failures, "key_file") {
		t.Errorf("failures:\n%s", failures)
	}
}
