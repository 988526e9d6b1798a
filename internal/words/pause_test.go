package words

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

func TestPause(t *testing.T) {
	t.Parallel()
	at, until := time.Date(2026, 11, 24, 13, 28, 54, 0, time.UTC), time.Date(2026, 11, 24, 13, 29, 27, 0, time.UTC)
	for want, p := range map[string]pause.Pause{
		"everything, paused by an operator":                                                           {Kind: pause.Operator},
		"category news, paused by an operator":                                                        {Kind: pause.Operator, Category: "news"},
		"shop, category news, paused by an operator":                                                  {Kind: pause.Operator, App: "shop", Category: "news"},
		"fcm, paused by ada since 2026-11-24T13:28:54.000Z: the fair; until 2026-11-24T13:29:27.000Z": {Kind: pause.Operator, Platform: push.FCM, By: "ada", At: at, Reason: "the fair", Until: until},
		"fcm of shop, in trouble since 2026-11-24T13:28:54.000Z: 20 of 25 answers fail: FCM answered 503 UNAVAILABLE; next look 2026-11-24T13:29:27.000Z": {Kind: pause.Trouble, App: "shop", Platform: push.FCM, At: at, Reason: "UNAVAILABLE", Error: "FCM answered 503 UNAVAILABLE", Until: until, Failures: 20, Answers: 25},
		"fcm of shop, in trouble since 2026-11-24T13:28:54.000Z: FCM answered 503 UNAVAILABLE; next look 2026-11-24T13:29:27.000Z":                        {Kind: pause.Trouble, App: "shop", Platform: push.FCM, At: at, Reason: "UNAVAILABLE", Error: "FCM answered 503 UNAVAILABLE", Until: until},
	} {
		if got := Pause(&p, at).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The readiness of a worker names a closed route as the overview and the list of pauses do.
func TestRoute(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 24, 13, 28, 54, 0, time.UTC)
	for want, s := range map[string]route.Status{
		"": {},
		"fcm of shop, paused: 20 of 25 answers fail: QUOTA_EXCEEDED; until 2026-11-24T13:29:54.000Z":                                                      {Pause: "QUOTA_EXCEEDED", Until: at.Add(time.Minute), Trouble: route.Trouble{Failures: 20, Answers: 25}},
		"fcm of shop, in trouble since 2026-11-24T13:28:54.000Z: 20 of 25 answers fail: FCM answered 503 UNAVAILABLE; next look 2026-11-24T13:29:54.000Z": {Trouble: route.Trouble{Reason: "UNAVAILABLE", Error: "FCM answered 503 UNAVAILABLE", Since: at, Next: at.Add(time.Minute), Failures: 20, Answers: 25}},
	} {
		s.App, s.Platform = "shop", push.FCM
		if got := Route(&s, at).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
