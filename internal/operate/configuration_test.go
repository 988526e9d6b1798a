package operate

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/config"
)

// Of what is in force a bearer of some apps sees what is theirs or everybody's.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	all := Configuration{
		File: "config.yaml", Refused: "apps.mail.apns.key_file: is missing", Warnings: []string{"mail is odd"},
		Waiting: []config.Change{{Key: "worker.attempts", From: "10", To: "2"}, {Key: "apps.mail.apns.topic", From: "a", To: "b"}, {Key: "limits.quotas.eu", From: "none", To: "set"}},
		Settings: []Configured{
			{"redis.address", "redis.example:6379", ""}, {"worker.attempts", "2", ""}, {"limits.default.min_gap", "1s", ""}, {"limits.quotas.eu.apps", "mail, shop", ""},
			{"apps.mail.apns.topic", "b", "mail"}, {"apps.shop.simulated", "true", "shop"}, {"apps.shop.fcm.project_id", "p", "shop"}, {"http.listen", ":1", ""},
		},
	}
	if got, err := of().Configuration(all); err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%+v, %v", got, err)
	}
	its, err := of("shop").Configuration(all)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, w := range its.Waiting {
		keys = append(keys, w.Key)
	}
	for _, s := range its.Settings {
		keys = append(keys, s.Key)
	}
	if got := strings.Join(keys, " "); got != "worker.attempts worker.attempts limits.default.min_gap apps.shop.simulated apps.shop.fcm.project_id" {
		t.Error(got)
	}
	if its.Refused != "The log says why." || len(its.Warnings) > 0 || its.File != all.File {
		t.Errorf("%+v", its)
	}
	if len(all.Waiting) != 3 || all.Settings[0].Key != "redis.address" {
		t.Error("what one bearer sees changes what the next one does")
	}
}
