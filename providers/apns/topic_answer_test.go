package apns_test

import (
	"net/http"
	"testing"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// The outcome of an answer about a topic names the topic, if only some of the app's pushes have it.
func TestOutcomeReportsRefusedTopic(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	config := credentials(t, server)
	sender := newSender(t, config)
	for _, c := range []struct {
		pushType string
		answer   standin.Answer
		want     string
	}{
		{"voip", standin.Answer{Status: http.StatusBadRequest, Reason: string(apns.TopicDisallowed)}, config.Topic + ".voip"},
		{"voip", standin.Answer{Status: http.StatusBadRequest, Reason: string(apns.DeviceTokenNotForTopic)}, config.Topic + ".voip"},
		{"voip", standin.Answer{Status: http.StatusForbidden, Reason: string(apns.InvalidProviderToken)}, ""},
		{"alert", standin.Answer{Status: http.StatusBadRequest, Reason: string(apns.TopicDisallowed)}, ""},
	} {
		server.RespondAlways(c.answer)
		n := &push.Notification{ID: "n", App: "shop", User: "u", Title: "hello", PushType: c.pushType}
		o := sender.Send(t.Context(), n, push.Target{Platform: push.APNs, Token: "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"}, providers.Departure{})
		if string(o.Reason) != c.answer.Reason || o.Topic != c.want || o.Kind == providers.Delivered {
			t.Errorf("%s, %s: %+v, want the topic %q", c.pushType, c.answer.Reason, o, c.want)
		}
	}
}
