package operate

import (
	"errors"
	"reflect"
	"testing"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A Producer with configured apps refuses a notification of any other app, alone and in a batch. The
// error lists the unknown app and all other faults in the texts of the API. Without configured apps a
// Producer accepts any app.
func TestProducerRefusesUnknownNames(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	anyApp := push.NewProducer(client, "", 0)
	p := anyApp.WithApps("shop", "kiosk")
	to := []push.Target{{Platform: push.FCM, Token: "t"}}
	app := App{Platforms: []push.Platform{push.FCM}}
	policies := limits.New(throttle.Policy{}, nil)
	for _, n := range []*push.Notification{
		{App: "shpo", User: "u", Targets: to, Title: "t"},
		{App: "mail", Targets: to, Title: "t"},
	} {
		want := Refusal(n, Apps{"kiosk": app, "shop": app}, policies)
		_, alone := p.Enqueue(t.Context(), n)
		for _, err := range []error{alone, p.EnqueueAll(t.Context(), []*push.Notification{n})[0].Err} {
			if !reflect.DeepEqual(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	}
	for id, by := range map[string]*push.Producer{"known": p, "any": anyApp} {
		n := &push.Notification{ID: id, App: "shop", User: "u", Targets: to, Title: "t"}
		if id == "any" {
			n.App = "shpo"
		}
		if _, err := by.Enqueue(t.Context(), n); err != nil {
			t.Error(err)
		}
		if r := by.EnqueueAll(t.Context(), []*push.Notification{n})[0]; r.Err != nil || !r.Known {
			t.Errorf("%+v", r)
		}
	}
	var faults push.Faults
	if _, err := p.Enqueue(t.Context(), &push.Notification{User: "u", Targets: to, Title: "t"}); !errors.As(err, &faults) || len(faults) != 1 || faults[0].Problem != "is missing" {
		t.Errorf("%v", err)
	}
	if _, err := anyApp.WithApps().Enqueue(t.Context(), &push.Notification{App: "shop", User: "u", Targets: to, Title: "t"}); !errors.As(err, &faults) || len(faults) != 1 {
		t.Errorf("%v", err)
	}
}
