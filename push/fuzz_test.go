package push

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
)

// A payload that can be decoded is encoded again without loss. No payload causes a panic.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(jobV1Golden))
	f.Add([]byte(`{"notification":null,"v":1}`))
	f.Add([]byte(`{"v":1,"accepted_at":"9999-12-31T23:59:59-23:00","replay":true,"notification":{"id":"i","app":"a","user":"u","targets":[{"platform":"fcm","token":"t"}],"apns": {"aps": {"badge": 1.0}},"fcm":null,"data":{}}}`))
	f.Add([]byte(`{"v":2,"accepted_at":"2026-11-20T12:00:00Z","notification":{"id":"i","app":"a","user":"u","targets":[{"platform":"webpush","token":"` + testURL + `","keys":{"p256dh":"` + testP256DH + `","auth":"` + testAuth + `"}}],"title":"t","webpush":{"own":1}}}`))
	f.Add([]byte(`{"v":1,"accepted_at":"2026-11-20T12:00:00+01:00","notification":{"ID":"i","app":"a","user":"\ud800","targets":[{"platform":"apns","token":"Ab"}],"push_type":"background","apns":{"a":{"b":[null,1e5]}},"not_before":"2026-11-20T12:00:00+01:00"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := Decode(data)
		if err != nil {
			if malformed := new(store.MalformedError); !errors.As(err, &malformed) || err.Error() == "" {
				t.Fatalf("the error is a %T: %v", err, err)
			}
			return
		}
		encoded, err := Encode(j)
		if err != nil {
			t.Fatalf("what was decoded is not encoded: %v", err)
		}
		again, err := Decode(encoded)
		if err != nil {
			t.Fatalf("what was encoded is not decoded: %v\n%s", err, encoded)
		}
		if !reflect.DeepEqual(plain(t, again), plain(t, j)) {
			t.Errorf("decoded again\n%+v, want\n%+v", again.Notification, j.Notification)
		}
	})
}

// plain returns the job with its instants in UTC and its blocks compact, so that only significant
// differences are left.
func plain(t *testing.T, j *Job) Job {
	n := *j.Notification
	n.NotBefore, n.ExpiresAt = n.NotBefore.UTC(), n.ExpiresAt.UTC()
	for _, raw := range []*json.RawMessage{&n.APNs, &n.FCM, &n.WebPush} {
		var compact bytes.Buffer
		if len(*raw) > 0 {
			must(t, json.Compact(&compact, *raw))
		}
		*raw = compact.Bytes()
	}
	if len(n.Data) == 0 {
		n.Data = nil
	}
	return Job{&n, j.AcceptedAt, j.Replay, j.Digested}
}

// A notification that Validate accepts is encoded, decoded and rendered within the limits. The rendered
// messages contain the ID.
func FuzzValidateAndRender(f *testing.F) {
	f.Add("Shipped", "<b>&\u2028", "k", "v", "", "collapse", uint8(0), `{"aps":{"category":"C"}}`, `{"data":null}`, ``, "", "", "")
	f.Add("", "", "k", "", PushLiveActivity, "", uint8(2), everyAPS, everyFCM, ``, "", "", "")
	f.Add("", "", "k", "", PushVoIP, "é", uint8(1), `{"a":[null,{"b":null}]}`, `{"android":{"data":{}}}`, `null`, "", "", "")
	f.Add("\xff", "x", "", "", PushBackground, "\n", uint8(3), `null`, `{"webpush":{"data":{"a":"b"}},"android":null}`, ``, "", "", "")
	f.Add("Shipped", "b", "k", "v", "", "collapse", uint8(3), ``, ``, `{"notification":{"navigate":"https://a","data":null},"own":null}`, testURL, testP256DH, testAuth)
	f.Add("", "b", "k", "v", PushAlert, "", uint8(1), ``, ``, `{"notification":{"title":"t","tag":"x"},"web_push":null}`, testURL, testP256DH+"=", "BTBZMqHH6r4Tts7J/aSIgg==")
	f.Add("t", "", "", "", "", "", uint8(1), ``, ``, `{"web_push":1}`, "https://a@b#", "\n", "==")
	f.Fuzz(func(t *testing.T, title, body, key, value, pushType, collapse string, priority uint8, apns, fcm, webPush, endpoint, p256dh, auth string) {
		n := &Notification{
			ID: "fuzz", App: "a", User: "u", Title: title, Body: body, PushType: pushType, CollapseKey: collapse,
			Priority:  []Priority{"", Critical, Default, Bulk}[priority%4],
			Targets:   []Target{{Platform: APNs, Token: "ab"}, {Platform: FCM, Token: `quoted"\`}},
			Data:      map[string]string{key: value},
			ExpiresAt: noon.Add(time.Hour),
			APNs:      json.RawMessage(apns), FCM: json.RawMessage(fcm), WebPush: json.RawMessage(webPush),
		}
		if endpoint != "" {
			n.Targets = append(n.Targets, Target{Platform: PlatformWebPush, Token: endpoint, Keys: &Keys{P256DH: p256dh, Auth: auth}})
		}
		if err := n.Validate(); err != nil {
			if len(faultsOf(t, err)) == 0 {
				t.Fatalf("an error without faults: %v", err)
			}
			return
		}
		encoded, err := Encode(&Job{Notification: n, AcceptedAt: noon})
		must(t, err)
		decoded, err := Decode(encoded)
		if err != nil {
			t.Fatalf("a valid notification is not decoded: %v", err)
		}
		a, err := decoded.Notification.RenderAPNs(n.Targets[0])
		if err != nil || len(a.Payload) > MaxAPNsVoIPPayload || len(a.CollapseID) > 64 {
			t.Fatalf("%d bytes for APNs: %v", len(a.Payload), err)
		}
		b, err := decoded.Notification.RenderFCM(n.Targets[1], noon)
		must(t, err)
		var payload struct {
			ID string `json:"pushpace_id"`
		}
		var message struct {
			Token string            `json:"token"`
			Data  map[string]string `json:"data"`
		}
		if err := json.Unmarshal(a.Payload, &payload); err != nil || payload.ID != n.ID {
			t.Errorf("APNs' payload holds the ID %q: %v\n%s", payload.ID, err, a.Payload)
		}
		if err := json.Unmarshal(b.JSON, &message); err != nil || message.Data[IDKey] != n.ID || message.Token != n.Targets[1].Token {
			t.Errorf("FCM's message holds the ID %q: %v\n%s", message.Data[IDKey], err, b.JSON)
		}
		if endpoint == "" {
			return
		}
		target := decoded.Notification.Targets[2]
		w, err := decoded.Notification.RenderWebPush(target, noon)
		if err != nil || len(w.Payload) > MaxWebPushPayload || w.TTL != 3600 || len(w.Topic)%32 != 0 {
			t.Fatalf("%d bytes for Web Push, %+v: %v", len(w.Payload), w, err)
		}
		var pushed map[string]any
		must(t, json.Unmarshal(w.Payload, &pushed))
		shown, _ := pushed["notification"].(map[string]any)
		held, _ := shown["data"].(map[string]any)
		if held[IDKey] != n.ID || isEmpty(shown["title"]) {
			t.Errorf("Web Push's payload holds the ID %q\n%s", held[IDKey], w.Payload)
		}
		_, badKey := target.Keys.PublicKey()
		if _, badAuth := target.Keys.Secret(); badKey != nil || badAuth != nil || !slices.Contains(Services(PlatformWebPush), target.Service()) {
			t.Errorf("%s of %v, %v", target.Service(), badKey, badAuth)
		}
	})
}

// Parse accepts no repeated name, in any spelling, and does not panic.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"app":"a","user":"u","targets":[{"platform":"fcm","token":"t"}]}`, `{"app":"a","App":"b"}`, `{"data":{"k":"1","k":"2"}}`,
		`{"data":{"k":"1","K":"2"},"apns":{"aps":[{"a":1,"\u0061":2}]}}`, `{"fcm":{"a":{"a":{},"b":[[],[{}]]}},"badge":-1e3}`, `{"id":"\\\"","title":"\ud800"}`, ` null `, `{"a":`, "{}{}",
		`{"data":{"1":"","2":"","3":"","4":"","5":"","6":"","7":"","8":"","9":"","10":"","11":"","12":"","13":"","14":"","15":"","16":"","17":"","17":""}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := Parse(data); err != nil {
			if len(faultsOf(t, err)) == 0 {
				t.Fatalf("an error without faults: %v", err)
			}
			return
		}
		if twice(json.NewDecoder(bytes.NewReader(data))) {
			t.Fatal("a name is there twice")
		}
	})
}

// twice reports whether an object of the next value has a name twice.
func twice(d *json.Decoder) bool {
	token, err := d.Token()
	if err != nil || token != json.Delim('{') && token != json.Delim('[') {
		return false
	}
	names := map[string]bool{}
	found := false
	for d.More() {
		if token == json.Delim('{') {
			name, _ := d.Token()
			text, _ := name.(string)
			found = found || names[text]
			names[text] = true
		}
		found = twice(d) || found
	}
	_, _ = d.Token()
	return found
}
