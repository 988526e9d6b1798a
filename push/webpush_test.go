package push

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// The keys of RFC 8291, section 5.
const (
	testP256DH = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
	testAuth   = "BTBZMqHH6r4Tts7J_aSIgg"
	testURL    = "https://updates.push.services.mozilla.com/wpush/v2/abc"
)

func browser() Target {
	return Target{Platform: PlatformWebPush, Token: testURL, Keys: &Keys{P256DH: testP256DH, Auth: testAuth}}
}

// forBrowsers returns the sample with only a browser as its target.
func forBrowsers() *Notification {
	n := sample()
	n.Targets = []Target{browser()}
	return n
}

func TestRenderWebPush(t *testing.T) {
	t.Parallel()
	minimal := func(n *Notification) {
		*n = Notification{ID: "i", App: "a", User: "u", Targets: n.Targets, Title: "t"}
	}
	block := func(raw string) func(*Notification) {
		return func(n *Notification) { minimal(n); n.WebPush = json.RawMessage(raw) }
	}
	const month = 28 * 24 * 3600
	for name, test := range map[string]struct {
		change func(*Notification)
		want   WebPushMessage
		json   string
	}{
		"every common field": {
			func(*Notification) {},
			WebPushMessage{TTL: 7200, Urgency: "high", Topic: "BHnJ6kJHz2tbUUaI1CIsF4V-uXJL3QRq"},
			`{"notification":{"title":"Shipped","body":"It is <on> its way & \"soon\" there","image":"https://example.com/a.png","tag":"order-4711","data":{"order":"4711","pushpace_id":"order-4711-shipped"}},"app_badge":3}`,
		},
		"the least": {
			minimal,
			WebPushMessage{TTL: month, Urgency: "high"},
			`{"notification":{"title":"t","tag":"i","data":{"pushpace_id":"i"}}}`,
		},
		"bulk, and a badge removed": {
			func(n *Notification) { minimal(n); n.Priority, n.Badge = Bulk, new(int) },
			WebPushMessage{TTL: month, Urgency: "normal"},
			`{"notification":{"title":"t","tag":"i","data":{"pushpace_id":"i"}},"app_badge":0}`,
		},
		"what has just expired": {
			func(n *Notification) { minimal(n); n.ExpiresAt = noon.Add(999 * time.Millisecond) },
			WebPushMessage{TTL: 1, Urgency: "high"},
			`{"notification":{"title":"t","tag":"i","data":{"pushpace_id":"i"}}}`,
		},
		"what lasts longer than is kept": {
			func(n *Notification) { minimal(n); n.ExpiresAt = noon.AddDate(1, 0, 0) },
			WebPushMessage{TTL: month, Urgency: "high"},
			`{"notification":{"title":"t","tag":"i","data":{"pushpace_id":"i"}}}`,
		},
		"part of a second": {
			func(n *Notification) { minimal(n); n.ExpiresAt = noon.Add(2900 * time.Millisecond) },
			WebPushMessage{TTL: 2, Urgency: "high"},
			`{"notification":{"title":"t","tag":"i","data":{"pushpace_id":"i"}}}`,
		},
		"declarative": {
			block(`{"notification":{"navigate":"https://example.com/o","silent":true},"mutable":true,"own":[1.50]}`),
			WebPushMessage{TTL: month, Urgency: "high"},
			`{"mutable":true,"notification":{"data":{"pushpace_id":"i"},"navigate":"https://example.com/o","silent":true,"tag":"i","title":"t"},"own":[1.50],"web_push":8030}`,
		},
		"a page, and not declarative": {
			block(`{"web_push":null,"notification":{"navigate":"https://example.com/o"}}`),
			WebPushMessage{TTL: month, Urgency: "high"},
			`{"notification":{"data":{"pushpace_id":"i"},"navigate":"https://example.com/o","tag":"i","title":"t"}}`,
		},
		"a site's own member of another case": {
			block(`{"Notification":{"navigate":"https://example.com/o"}}`),
			WebPushMessage{TTL: month, Urgency: "high"},
			`{"Notification":{"navigate":"https://example.com/o"},"notification":{"data":{"pushpace_id":"i"},"tag":"i","title":"t"}}`,
		},
		"data replaced": {
			block(`{"notification":{"data":null,"tag":"own"},"app_badge":"7"}`),
			WebPushMessage{TTL: month, Urgency: "high"},
			`{"app_badge":"7","notification":{"data":{"pushpace_id":"i"},"tag":"own","title":"t"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := forBrowsers()
			test.change(n)
			if err := n.Validate(); err != nil && !strings.Contains(name, "expired") {
				t.Fatal(err)
			}
			got, err := n.RenderWebPush(n.Targets[0], noon)
			must(t, err)
			if string(got.Payload) != test.json {
				t.Errorf("payload\n%s, want\n%s", got.Payload, test.json)
			}
			if got.TTL != test.want.TTL || got.Urgency != test.want.Urgency || got.Topic != test.want.Topic {
				got.Payload = nil
				t.Errorf("headers\n%+v, want\n%+v", got, test.want)
			}
		})
	}
	if _, err := sample().RenderWebPush(sample().Targets[0], noon); err == nil {
		t.Error("a target of APNs is rendered")
	}
}

// The topic depends on the user and the key, and has a form that all services accept.
func TestWebPushTopicDependsOnUserAndKey(t *testing.T) {
	t.Parallel()
	of := func(app, user, key string) string {
		return (&Notification{App: app, User: user, CollapseKey: key}).hashedCollapseKey()
	}
	seen := map[string]bool{}
	for _, names := range [][3]string{{"a", "u", "k"}, {"a", "u", "k2"}, {"a", "u2", "k"}, {"a2", "u", "k"}, {"a", "uk", "k"}} {
		topic := of(names[0], names[1], names[2])
		if raw, err := base64.RawURLEncoding.DecodeString(topic); err != nil || len(topic) != 32 || len(raw) != 24 || seen[topic] {
			t.Errorf("%q: %q", names, topic)
		}
		seen[topic] = true
	}
}

func TestValidateNamesFieldOfFaultyBrowserTarget(t *testing.T) {
	t.Parallel()
	key := func(p256dh string) func(*Notification) {
		return func(n *Notification) { n.Targets[0].Keys.P256DH = p256dh }
	}
	auth := func(auth string) func(*Notification) {
		return func(n *Notification) { n.Targets[0].Keys.Auth = auth }
	}
	token := func(token string) func(*Notification) {
		return func(n *Notification) { n.Targets[0].Token = token }
	}
	block := func(raw string) func(*Notification) {
		return func(n *Notification) { n.WebPush = json.RawMessage(raw) }
	}
	point, err := base64.RawURLEncoding.DecodeString(testP256DH)
	must(t, err)
	text := base64.RawURLEncoding.EncodeToString
	offCurve := bytes.Clone(point)
	offCurve[64] ^= 1
	for name, test := range map[string]struct {
		change func(*Notification)
		field  string // "" for none
	}{
		"nothing":               {func(*Notification) {}, ""},
		"base64 with padding":   {key(base64.StdEncoding.EncodeToString(point)), ""},
		"base64url with it":     {auth(testAuth + "=="), ""},
		"the longest endpoint":  {token(testURL + strings.Repeat("a", MaxEndpointBytes-len(testURL))), ""},
		"an unknown host":       {token("https://up.example.org/a?b=c"), ""},
		"keys missing":          {func(n *Notification) { n.Targets[0].Keys = nil }, "/targets/0/keys"},
		"no p256dh":             {key(""), "/targets/0/keys/p256dh"},
		"no auth":               {auth(""), "/targets/0/keys/auth"},
		"p256dh of 66 bytes":    {key(text(append(bytes.Clone(point), 0))), "/targets/0/keys/p256dh"},
		"p256dh off the curve":  {key(text(offCurve)), "/targets/0/keys/p256dh"},
		"p256dh with a newline": {key(testP256DH + "\n"), "/targets/0/keys/p256dh"},
		"p256dh of 32 kB":       {key(strings.Repeat("A", 1<<15)), "/targets/0/keys/p256dh"},
		"auth of 15 bytes":      {auth(text(make([]byte, 15))), "/targets/0/keys/auth"},
		"keys on fcm":           {func(n *Notification) { n.Targets[0].Platform, n.Targets[0].Token = FCM, "registration-token" }, "/targets/0/keys"},
		"endpoint over http":    {token("http://fcm.googleapis.com/wp/a"), "/targets/0/token"},
		"endpoint too long":     {token(testURL + strings.Repeat("a", MaxEndpointBytes-len(testURL)+1)), "/targets/0/token"},
		"the same twice": {func(n *Notification) {
			other := browser()
			other.Keys.Auth = text(make([]byte, 16))
			n.Targets = append(n.Targets, other)
		}, "/targets/1"},
		"the same in capitals": {func(n *Notification) {
			other := browser()
			other.Token = strings.Replace(testURL, "fcm.googleapis.com", "FCM.GoogleAPIs.com:443", 1)
			n.Targets[0].Token, n.Targets = testURL, append(n.Targets, other)
		}, "/targets/1"},
		"the background":       {func(n *Notification) { silent(PushBackground)(n); n.CollapseKey = "" }, "/push_type"},
		"a badge below 0":      {func(n *Notification) { *n.Badge = -1 }, "/badge"},
		"no title":             {func(n *Notification) { n.Title = "" }, "/title"},
		"a title in the block": {func(n *Notification) { n.Title = ""; block(`{"notification":{"title":"t"}}`)(n) }, ""},
		"title removed":        {block(`{"notification":{"title":null}}`), "/title"},
		"all removed":          {block(`{"notification":null}`), "/title"},
		"too large":            {func(n *Notification) { n.Body = strings.Repeat("a", MaxWebPushPayload) }, ""},
		"block: no object":     {block(`[]`), "/webpush"},
		"block: the ID's key":  {block(`{"pushpace_id":"x"}`), "/webpush/pushpace_id"},
		"block: in the data":   {block(`{"notification":{"data":{"pushpace_id":null}}}`), "/webpush/notification/data/pushpace_id"},
		"block: another":       {block(`{"web_push":1}`), "/webpush/web_push"},
		"block: unknown":       {block(`{"notification":{"titel":"t"}}`), "/webpush/notification/titel"},
		"block: badge":         {block(`{"notification":{"badge":3}}`), "/webpush/notification/badge"},
		"block: app_badge":     {block(`{"app_badge":-1}`), "/webpush/app_badge"},
		"block: over http":     {block(`{"notification":{"navigate":"http://a"}}`), "/webpush/notification/navigate"},
		"block: direction":     {block(`{"notification":{"dir":"up"}}`), "/webpush/notification/dir"},
		"block: action":        {block(`{"notification":{"actions":[{"action":"a"}]}}`), "/webpush/notification/actions/0/title"},
		"block: data":          {block(`{"notification":{"data":"x"}}`), "/webpush/notification/data"},
		"block: everything": {block(`{"web_push":8030,"app_badge":0,"mutable":false,"own":{"a":1},"notification":{"title":"t","body":"b","lang":"en","dir":"ltr","tag":"x",
			"icon":"/i.png","badge":"/b.png","image":"i","navigate":"https://a/b","silent":false,"renotify":true,"requireInteraction":true,"timestamp":1,"vibrate":[1,2],
			"actions":[{"action":"a","title":"t","icon":"i","navigate":"https://a/c"}],"data":{"k":[1]}}}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := forBrowsers()
			test.change(n)
			got := faultsOf(t, n.Validate())
			if name == "too large" {
				if len(got) != 1 || !strings.Contains(got[0].Problem, "3993") {
					t.Errorf("%v", got)
				}
				return
			}
			var want []string
			if test.field != "" {
				want = []string{test.field}
			}
			if !slices.Equal(fields(got), want) {
				t.Errorf("faults at %q, want %q: %v", fields(got), want, got)
			}
			for _, secret := range []string{n.Targets[0].Token, testAuth, testP256DH} {
				if secret != "" && strings.Contains(fmt.Sprint(got), secret) {
					t.Errorf("the faults hold what only the browser and its pushers may know: %v", got)
				}
			}
		})
	}
}

// A job with a browser's target or block, or a digest, has version 2. Other jobs keep version 1.
func TestJobWithBrowserOrDigestIsVersion2(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*Notification)
		begins string
	}{
		"target": {func(n *Notification) { n.Targets = append(n.Targets, browser()) }, `{"v":2,`},
		"block":  {func(n *Notification) { n.WebPush = json.RawMessage(`{"own":1}`) }, `{"v":2,`},
		"null":   {func(n *Notification) { n.WebPush = json.RawMessage(`null`) }, `{"v":2,`},
		"digest": {func(n *Notification) { n.CollapseKey, n.Digest = "", &Digest{Key: "k"} }, `{"v":2,`},
		"none":   {func(*Notification) {}, `{"v":1,`},
	} {
		j := job()
		test.change(j.Notification)
		data, err := Encode(j)
		must(t, err)
		if !strings.HasPrefix(string(data), test.begins) {
			t.Errorf("%s: %.20s, want %s", name, data, test.begins)
		}
		back, err := Decode(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again, err := Encode(back); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%s: encoded again\n%s, want\n%s (%v)", name, again, data, err)
		}
		if test.begins != `{"v":1,` && name != "null" {
			if _, err := Decode(bytes.Replace(data, []byte(`{"v":2,`), []byte(`{"v":1,`), 1)); err == nil || !strings.Contains(err.Error(), "/v") {
				t.Errorf("%s: version 1 is read: %v", name, err)
			}
		}
	}
}

// The hint of an endpoint depends on the whole endpoint and not on the keys. The hint of a token is its
// end.
func TestHintDependsOnAddressAlone(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]string{"": "", "123456": "", "1234567": "234567", strings.Repeat("a", 58) + "00fcab": "00fcab"} {
		if got := (Target{Platform: APNs, Token: token}).Hint(); got != want {
			t.Errorf("%s: %s", token, got)
		}
	}
	if got := (Target{Platform: FCM, FID: "deQ7zv1tRk2bX0mYw9sLpA"}).Hint(); got != "w9sLpA" {
		t.Errorf("the FID's is %s", got)
	}
	one, other := browser(), browser()
	other.Token += "?up=1"
	if hint := one.Hint(); hint != "bd2955" || hint == other.Hint() || len(other.Hint()) != 6 {
		t.Errorf("%s and %s", hint, other.Hint())
	}
	other = one
	other.Keys = nil
	if one.Hint() != other.Hint() {
		t.Error("the keys count")
	}
}

// Parse reads a browser's subscription unchanged, and rejects unknown members.
func TestParseReadsSubscriptionUnchanged(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf(`{"app":"a","user":"u","title":"t","targets":[{"platform":"webpush","token":%q,"keys":{"p256dh":%q,"auth":%q}}]}`, testURL, testP256DH, testAuth)
	n, err := Parse([]byte(text))
	if err != nil || n.Validate() != nil || *n.Targets[0].Keys != *browser().Keys {
		t.Errorf("%+v: %v", n, err)
	}
	for name, text := range map[string]string{
		"/targets/0/keys/extra": strings.Replace(text, `"auth"`, `"extra":"x","auth"`, 1),
		"/targets/0/keys":       strings.Replace(text, `"keys":{`, `"keys":1,"Keys":{`, 1),
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
