package push

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/http/httpguts"
)

func TestRenderAPNs(t *testing.T) {
	t.Parallel()
	minimal := func(n *Notification) {
		*n = Notification{ID: "i", App: "a", User: "u", Targets: n.Targets, Body: "b"}
	}
	for name, test := range map[string]struct {
		change func(*Notification)
		want   APNsMessage
		json   string
	}{
		"every common field": {
			func(*Notification) {},
			APNsMessage{PushType: "alert", CollapseID: "order-4711", Priority: 10, Expiration: noon.Add(2 * time.Hour)},
			`{"aps":{"alert":{"title":"Shipped","subtitle":"Order 4711","body":"It is <on> its way & \"soon\" there"},"badge":3,"sound":"default","category":"orders","thread-id":"orders","mutable-content":1},"image":"https://example.com/a.png","pushpace_id":"order-4711-shipped","order":"4711"}`,
		},
		"the least": {
			minimal,
			APNsMessage{PushType: "alert", Priority: 10},
			`{"aps":{"alert":{"body":"b"}},"pushpace_id":"i"}`,
		},
		"badge removed": {
			func(n *Notification) { minimal(n); n.Body = ""; n.Badge = new(int) },
			APNsMessage{PushType: "alert", Priority: 10},
			`{"aps":{"badge":0},"pushpace_id":"i"}`,
		},
		"bulk": {
			func(n *Notification) { minimal(n); n.Priority = Bulk },
			APNsMessage{PushType: "alert", Priority: 5},
			`{"aps":{"alert":{"body":"b"}},"pushpace_id":"i"}`,
		},
		"critical in the background": {
			func(n *Notification) { minimal(n); silent(PushBackground)(n); n.Priority = Critical },
			APNsMessage{PushType: "background", Priority: 5},
			`{"aps":{"content-available":1},"pushpace_id":"i"}`,
		},
		"voip": {
			func(n *Notification) { minimal(n); silent(PushVoIP)(n); n.Data = map[string]string{"call": "1"} },
			APNsMessage{PushType: "voip", TopicSuffix: ".voip", Priority: 10},
			`{"pushpace_id":"i","call":"1"}`,
		},
		"widgets": {
			func(n *Notification) { minimal(n); silent(PushWidgets)(n) },
			APNsMessage{PushType: "widgets", TopicSuffix: ".push-type.widgets", Priority: 10},
			`{"aps":{"content-changed":true},"pushpace_id":"i"}`,
		},
		"Live Activity": {
			func(n *Notification) {
				minimal(n)
				silent(PushLiveActivity)(n)
				n.Title, n.Sound = "Goal", "goal.aif"
				n.APNs = json.RawMessage(`{"aps":{"event":"update","timestamp":1700000000,"content-state":{"score":1.50}}}`)
			},
			APNsMessage{PushType: "liveactivity", TopicSuffix: ".push-type.liveactivity", Priority: 10},
			`{"aps":{"alert":{"sound":"goal.aif","title":"Goal"},"content-state":{"score":1.50},"event":"update","timestamp":1700000000},"pushpace_id":"i"}`,
		},
		"raw block": {
			func(n *Notification) {
				minimal(n)
				n.Title, n.Sound = "t", "s"
				n.APNs = json.RawMessage(`{"aps":{"alert":{"body":"<raw>","title":null},"sound":{"name":"n","critical":1},"category":"C"},"deep":{"a":{"gone":null,"big":12345678901234567890}},"list":[1,null]}`)
			},
			APNsMessage{PushType: "alert", Priority: 10},
			`{"aps":{"alert":{"body":"<raw>"},"category":"C","sound":{"critical":1,"name":"n"}},"deep":{"a":{"big":12345678901234567890}},"list":[1,null],"pushpace_id":"i"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := sample()
			test.change(n)
			must(t, n.Validate())
			got, err := n.RenderAPNs(n.Targets[0])
			must(t, err)
			if string(got.Payload) != test.json {
				t.Errorf("payload\n%s, want\n%s", got.Payload, test.json)
			}
			got.Payload, got.ID = nil, ""
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("headers\n%+v, want\n%+v", got, test.want)
			}
		})
	}
}

func TestTopicSuffixFollowsFromPushType(t *testing.T) {
	t.Parallel()
	for pushType, want := range map[string]string{
		"": "", "alert": "", "background": "", "mdm": "",
		"location": ".location-query", "voip": ".voip", "complication": ".complication",
		"fileprovider": ".pushkit.fileprovider", "pushtotalk": ".voip-ptt",
		"liveactivity": ".push-type.liveactivity", "widgets": ".push-type.widgets", "controls": ".push-type.controls",
	} {
		n := sample()
		silent(pushType)(n)
		m, err := n.RenderAPNs(n.Targets[0])
		if err != nil || m.TopicSuffix != want {
			t.Errorf("push type %q: suffix %q, want %q (%v)", pushType, m.TopicSuffix, want, err)
		}
	}
}

func TestRetryHasSameAPNsID(t *testing.T) {
	t.Parallel()
	n := sample()
	id := func(change func(*Notification)) string {
		m := sample()
		change(m)
		got, err := m.RenderAPNs(m.Targets[0])
		must(t, err)
		return got.ID
	}
	const want = "e5736669-51ae-5bb8-b36a-0562e2767e9a"
	if got := id(func(*Notification) {}); got != want {
		t.Errorf("apns-id is %s, want %s", got, want)
	}
	if got := id(func(n *Notification) { n.Body = "another" }); got != want {
		t.Error("apns-id depends on the body")
	}
	if id(func(n *Notification) { n.ID += "2" }) == want || id(func(n *Notification) { n.Targets[0].Token = "ab" }) == want {
		t.Error("apns-id does not depend on the ID and the target")
	}
	if u := uuid.MustParse(apnsID(n.ID, n.Targets[0])); u.Version() != 5 {
		t.Errorf("apns-id is a UUID of version %d, want 5", u.Version())
	}
}

func TestRenderFCMToFID(t *testing.T) {
	t.Parallel()
	n := &Notification{ID: "i", App: "a", User: "u", Body: "b"}
	render := func(target Target) string {
		m, err := n.RenderFCM(target, noon)
		must(t, err)
		return string(m.JSON)
	}
	token, fid := render(Target{Platform: FCM, Token: "x"}), render(Target{Platform: FCM, FID: "x"})
	if !strings.HasPrefix(fid, `{"fid":"x",`) || strings.Replace(token, `"token"`, `"fid"`, 1) != fid {
		t.Errorf("%s, and to a token %s", fid, token)
	}
}

func TestRenderFCM(t *testing.T) {
	t.Parallel()
	minimal := func(n *Notification) {
		*n = Notification{ID: "i", App: "a", User: "u", Targets: []Target{{Platform: FCM, Token: "tok"}}, Body: "b"}
	}
	raw := func(block string) func(*Notification) {
		return func(n *Notification) { minimal(n); n.FCM = json.RawMessage(block) }
	}
	for name, test := range map[string]struct {
		change func(*Notification)
		want   string
	}{
		"every common field": {
			only(FCM),
			`{"token":"dGVzdA:APA91b","data":{"order":"4711","pushpace_id":"order-4711-shipped"},"notification":{"title":"Shipped","body":"It is <on> its way & \"soon\" there","image":"https://example.com/a.png"},"android":{"collapse_key":"order-4711","priority":"high","ttl":"7200s","notification":{"sound":"default","channel_id":"orders","tag":"order-4711","notification_count":3}},"apns":{"headers":{"apns-collapse-id":"order-4711","apns-expiration":"1795183200","apns-push-type":"alert"},"payload":{"aps":{"alert":{"title":"Shipped","subtitle":"Order 4711","body":"It is <on> its way & \"soon\" there"},"badge":3,"sound":"default","category":"orders","thread-id":"orders","mutable-content":1}},"fcm_options":{"image":"https://example.com/a.png"}},"webpush":{"headers":{"TTL":"7200","Topic":"BHnJ6kJHz2tbUUaI1CIsF4V-uXJL3QRq","Urgency":"high"},"notification":{"image":"https://example.com/a.png","tag":"order-4711"}}}`,
		},
		"the least": {
			minimal,
			`{"token":"tok","data":{"pushpace_id":"i"},"notification":{"body":"b"},"android":{"priority":"high"},"apns":{"headers":{"apns-push-type":"alert"}},"webpush":{"headers":{"Urgency":"high"}}}`,
		},
		"bulk": {
			func(n *Notification) { minimal(n); n.Priority = Bulk },
			`{"token":"tok","data":{"pushpace_id":"i"},"notification":{"body":"b"},"android":{"priority":"normal"},"apns":{"headers":{"apns-priority":"5","apns-push-type":"alert"}}}`,
		},
		"background": {
			func(n *Notification) {
				minimal(n)
				silent(PushBackground)(n)
				n.Priority, n.CollapseKey = Critical, "c"
			},
			`{"token":"tok","data":{"pushpace_id":"i"},"android":{"collapse_key":"c","priority":"normal"},"apns":{"headers":{"apns-collapse-id":"c","apns-priority":"5","apns-push-type":"background"},"payload":{"aps":{"content-available":1}}},"webpush":{"headers":{"Topic":"W0xFniDx2xx07gzZv4x1cRZs_XGuC6u9"}}}`,
		},
		"fraction of a second left": {
			func(n *Notification) { minimal(n); n.ExpiresAt = noon.Add(3900 * time.Millisecond) },
			`{"token":"tok","data":{"pushpace_id":"i"},"notification":{"body":"b"},"android":{"priority":"high","ttl":"3s"},"apns":{"headers":{"apns-expiration":"1795176003","apns-push-type":"alert"}},"webpush":{"headers":{"TTL":"3","Urgency":"high"}}}`,
		},
		"longer than 28 days": {
			func(n *Notification) { minimal(n); n.ExpiresAt = noon.AddDate(400, 0, 0) },
			`{"token":"tok","data":{"pushpace_id":"i"},"notification":{"body":"b"},"android":{"priority":"high","ttl":"2419200s"},"apns":{"headers":{"apns-expiration":"14417956800","apns-push-type":"alert"}},"webpush":{"headers":{"TTL":"2419200","Urgency":"high"}}}`,
		},
		"expired": {
			func(n *Notification) { minimal(n); n.ExpiresAt = noon.Add(-time.Hour) },
			`{"token":"tok","data":{"pushpace_id":"i"},"notification":{"body":"b"},"android":{"priority":"high","ttl":"0s"},"apns":{"headers":{"apns-expiration":"1795172400","apns-push-type":"alert"}},"webpush":{"headers":{"TTL":"0","Urgency":"high"}}}`,
		},
		"raw block": {
			raw(`{"notification":null,"data":{"k":"v"},"android":{"priority":null,"direct_boot_ok":true}}`),
			`{"token":"tok","android":{"direct_boot_ok":true},"apns":{"headers":{"apns-priority":"5","apns-push-type":"background"},"payload":{"aps":{"content-available":1}}},"data":{"k":"v","pushpace_id":"i"},"webpush":{"headers":{"Urgency":"high"}}}`,
		},
		"raw block keeps the ID": {
			raw(`{"data":null,"android":{"data":{"k":"v"}},"webpush":{"data":{}}}`),
			`{"token":"tok","android":{"data":{"k":"v","pushpace_id":"i"},"priority":"high"},"apns":{"headers":{"apns-push-type":"alert"}},"data":{"pushpace_id":"i"},"notification":{"body":"b"},"webpush":{"data":{"pushpace_id":"i"},"headers":{"Urgency":"high"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := sample()
			test.change(n)
			must(t, n.Validate())
			got, err := n.RenderFCM(n.Targets[0], noon)
			must(t, err)
			if string(got.JSON) != test.want {
				t.Errorf("message\n%s, want\n%s", got.JSON, test.want)
			}
		})
	}
}

// Validate and rendering accept a notification of the maximum size, and neither accepts one more byte. An
// ID that is not generated yet counts.
func TestSizeLimitsAreExact(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limit  int
		change func(*Notification)
		size   func(*Notification) (int, error)
	}{
		"APNs":      {4096, only(APNs), apnsSize},
		"APNs VoIP": {5120, func(n *Notification) { only(APNs)(n); silent(PushVoIP)(n) }, apnsSize},
		"APNs, raw": {4096, func(n *Notification) { only(APNs)(n); n.APNs = json.RawMessage(`{"a":"<>&"}`) }, apnsSize},
		"FCM":       {4096, func(n *Notification) { only(FCM)(n); n.ExpiresAt = noon.AddDate(1, 0, 0) }, fcmSize},
		"FCM, Apple devices": {4096, func(n *Notification) {
			only(FCM)(n)
			n.Image, n.Thread = "", strings.Repeat("t", 200)
		}, fcmAppleSize},
		"Web Push": {MaxWebPushPayload, func(n *Notification) { n.Targets = []Target{browser()} }, webPushSize},
		"FCM, raw": {4096, func(n *Notification) { only(FCM)(n); n.FCM = json.RawMessage(`{"android":{"ttl":"2419200s"}}`) }, fcmSize},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := sample()
			test.change(n)
			n.ID = strings.Repeat("i", 36)
			n.Data["fill"] = ""
			empty, err := test.size(n)
			must(t, err)
			n.Data["fill"] = strings.Repeat("x", test.limit-empty)
			if got, err := test.size(n); err != nil || got != test.limit {
				t.Errorf("%d bytes rendered, want %d: %v", got, test.limit, err)
			}
			without := *n
			without.ID = ""
			for _, n := range []*Notification{n, &without} {
				if err := n.Validate(); err != nil {
					t.Error(err)
				}
			}
			n.Data["fill"] += "x"
			without.Data = n.Data
			if _, err := test.size(n); len(faultsOf(t, err)) != 1 {
				t.Errorf("one byte more is rendered: %v", err)
			}
			for _, n := range []*Notification{n, &without} {
				if f := faultsOf(t, n.Validate()); len(f) != 1 {
					t.Errorf("one byte more: %v", f)
				}
			}
		})
	}
}

// The block of another platform is not part of the payload that is too large.
func TestSizeFaultNamesFieldOfThePlatform(t *testing.T) {
	t.Parallel()
	long := json.RawMessage(`{"data":{"long":"` + strings.Repeat("x", 4500) + `"}}`)
	for name, test := range map[string]struct {
		change func(*Notification)
		want   []string
	}{
		"APNs":     {only(APNs), []string{"/body"}},
		"FCM":      {only(FCM), []string{"/fcm"}},
		"both":     {func(*Notification) {}, []string{"/body", "/fcm"}},
		"Web Push": {func(n *Notification) { n.Targets = []Target{browser()} }, []string{"/body"}},
	} {
		n := sample()
		n.Body, n.FCM = strings.Repeat("b", 4200), long
		test.change(n)
		got := fields(faultsOf(t, n.Validate()))
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func apnsSize(n *Notification) (int, error) {
	m, err := n.RenderAPNs(n.Targets[0])
	return len(m.Payload), err
}

func webPushSize(n *Notification) (int, error) {
	m, err := n.RenderWebPush(n.Targets[0], noon)
	return len(m.Payload), err
}

// fcmSize returns how many bytes of the message count on Android.
func fcmSize(n *Notification) (int, error) {
	m, err := n.RenderFCM(n.Targets[0], noon)
	if err != nil {
		return 0, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(m.JSON, &members); err != nil {
		return 0, err
	}
	size := len(`{}`) - len(`,`)
	for _, name := range []string{"data", "notification", "android"} {
		size += len(name) + len(`"":,`) + len(members[name])
	}
	return size, nil
}

// fcmAppleSize returns how many bytes count on an Apple device: its alert replaces the
// notification's texts.
func fcmAppleSize(n *Notification) (int, error) {
	m, err := n.RenderFCM(n.Targets[0], noon)
	if err != nil {
		return 0, err
	}
	var message struct {
		Data json.RawMessage
		APNs struct{ Payload json.RawMessage }
	}
	err = json.Unmarshal(m.JSON, &message)
	return len(`{"apns":{"payload":},"data":,"notification":{}}`) + len(message.APNs.Payload) + len(message.Data), err
}

func TestRenderRefusesWrongPlatformAndMissingID(t *testing.T) {
	t.Parallel()
	whole, nameless, broken := sample(), sample(), sample()
	nameless.ID = ""
	broken.APNs, broken.FCM = json.RawMessage(`[]`), json.RawMessage(`{`)
	for what, c := range map[string]struct {
		n         *Notification
		apns, fcm int // the targets
	}{
		"to the other platform": {whole, 1, 0}, "without an ID": {nameless, 0, 1}, "with a block that is no object": {broken, 0, 1},
	} {
		if _, err := c.n.RenderAPNs(c.n.Targets[c.apns]); err == nil {
			t.Errorf("rendered for APNs %s", what)
		}
		if _, err := c.n.RenderFCM(c.n.Targets[c.fcm], noon); err == nil {
			t.Errorf("rendered for FCM %s", what)
		}
	}
}

func TestRenderDoesNotChangeNotification(t *testing.T) {
	t.Parallel()
	n, want := sample(), sample()
	n.APNs, n.FCM = json.RawMessage(`{"a":{"b":1}}`), json.RawMessage(`{"data":{"k":"v"}}`)
	want.APNs, want.FCM = json.RawMessage(`{"a":{"b":1}}`), json.RawMessage(`{"data":{"k":"v"}}`)
	if _, err := n.RenderAPNs(n.Targets[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := n.RenderFCM(n.Targets[1], noon); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(n, want) {
		t.Errorf("rendering changed it to %+v", n)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// APNs gets the collapse key in a header, which can contain only printable ASCII without spaces at its
// ends. Jobs of an older producer may also have other keys.
func TestCollapseIDFitsInHeader(t *testing.T) {
	t.Parallel()
	for key, asItIs := range map[string]bool{
		"order-4711": true, "a b": true, "~!": true, strings.Repeat("k", 64): true, "": true,
		"k ": false, " k": false, "ключ": false, "é": false, "日本語": false, "👩\u200d💻": false, "a\u00a0b": false, "a\tb": false, "a\x00": false, "a\r\nb: c": false, strings.Repeat("k", 65): false,
	} {
		n := sample()
		n.CollapseKey = key
		m, err := n.RenderAPNs(n.Targets[0])
		must(t, err)
		if (m.CollapseID == key) != asItIs || len(m.CollapseID) > MaxCollapseKeyBytes || !httpguts.ValidHeaderFieldValue(m.CollapseID) || strings.TrimSpace(m.CollapseID) != m.CollapseID || !isPrintable(m.CollapseID, ' ') {
			t.Errorf("%q becomes %q", key, m.CollapseID)
		}
		if again, _ := n.RenderAPNs(n.Targets[0]); again.CollapseID != m.CollapseID {
			t.Errorf("%q becomes %q, and then %q", key, m.CollapseID, again.CollapseID)
		}
		if !asItIs && m.CollapseID != n.hashedCollapseKey() {
			t.Errorf("%q: APNs gets %q, a browser %q", key, m.CollapseID, n.hashedCollapseKey())
		}
	}
	n := sample()
	for key, taken := range map[string]bool{"ключ": true, "日本語": true, "k ": false} {
		n.CollapseKey = key
		if err := n.Validate(); (err == nil) != taken {
			t.Errorf("%q: %v", key, err)
		}
	}
}
