package push

import (
	"encoding/json"
	"testing"
)

// An alert that shows nothing on one of its platforms is refused. If an older version has queued it, it
// is still delivered.
func TestAlertWithoutContentIsRefused(t *testing.T) {
	t.Parallel()
	apns, fcm := []Target{{Platform: APNs, Token: "ab"}}, []Target{{Platform: FCM, Token: "t"}}
	both := []Target{apns[0], fcm[0]}
	data, badge := map[string]string{"k": "v"}, 0
	for name, test := range map[string]struct {
		n     Notification
		shows bool
	}{
		"nothing":                       {Notification{Targets: both}, false},
		"title":                         {Notification{Targets: both, Title: "t"}, true},
		"body":                          {Notification{Targets: both, Body: "b"}, true},
		"subtitle alone":                {Notification{Targets: apns, Subtitle: "s"}, true},
		"badge alone":                   {Notification{Targets: apns, Badge: &badge}, true},
		"sound alone":                   {Notification{Targets: apns, Sound: "s"}, true},
		"data for FCM":                  {Notification{Targets: fcm, Data: data}, true},
		"data for both":                 {Notification{Targets: both, Data: data}, false},
		"data in the background":        {Notification{Targets: both, Data: data, PushType: PushBackground}, true},
		"nothing for FCM":               {Notification{Targets: fcm, Channel: "c"}, false},
		"image for APNs":                {Notification{Targets: apns, Image: "https://a"}, false},
		"a key in APNs' block":          {Notification{Targets: apns, APNs: json.RawMessage(`{"aps":{"alert":{"loc-key":"K"}}}`)}, true},
		"a title's key":                 {Notification{Targets: apns, APNs: json.RawMessage(`{"aps":{"alert":{"title-loc-key":"K"}}}`)}, true},
		"text in APNs' block":           {Notification{Targets: apns, APNs: json.RawMessage(`{"aps":{"alert":"hi"}}`)}, true},
		"an alert of arguments":         {Notification{Targets: apns, APNs: json.RawMessage(`{"aps":{"alert":{"loc-args":["a"]}}}`)}, false},
		"an empty text":                 {Notification{Targets: apns, APNs: json.RawMessage(`{"aps":{"alert":""}}`)}, false},
		"content-available":             {Notification{Targets: apns, APNs: json.RawMessage(`{"aps":{"content-available":1}}`)}, false},
		"alert removed":                 {Notification{Targets: apns, Title: "t", APNs: json.RawMessage(`{"aps":{"alert":null}}`)}, false},
		"aps removed":                   {Notification{Targets: apns, Title: "t", APNs: json.RawMessage(`{"aps":null}`)}, false},
		"a key in FCM's block":          {Notification{Targets: fcm, FCM: json.RawMessage(`{"android":{"notification":{"body_loc_key":"k"}}}`)}, true},
		"an empty block for FCM":        {Notification{Targets: fcm, FCM: json.RawMessage(`{"notification":null}`)}, false},
		"a Live Activity shows a state": {Notification{Targets: apns, PushType: PushLiveActivity, APNs: json.RawMessage(`{"aps":{"event":"end","timestamp":1,"content-state":{}}}`)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := test.n
			n.App, n.User = "a", "u"
			switch f := faultsOf(t, n.Validate()); {
			case test.shows && len(f) > 0:
				t.Errorf("refused: %v", f)
			case !test.shows && (len(f) != 1 || f[0].Field != "/push_type"):
				t.Errorf("faults %v, want one at /push_type", f)
			}
			if f := n.faults(); len(f) > 0 {
				t.Errorf("what is on the queue is refused: %v", f)
			}
		})
	}
}
