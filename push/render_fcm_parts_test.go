package push

import (
	"encoding/json"
	"testing"
)

// The parts for Apple devices and browsers follow from the same fields as Android's, and
// the raw block wins field by field.
func TestRenderFCMForAppleDevicesAndBrowsers(t *testing.T) {
	t.Parallel()
	raw := func(block string) func(*Notification) {
		return func(n *Notification) { n.FCM = json.RawMessage(block) }
	}
	const urgent = `{"headers":{"Urgency":"high"}}`
	for name, test := range map[string]struct {
		change        func(*Notification)
		apns, webpush string
	}{
		"sound":               {func(n *Notification) { n.Sound = "ping.aiff" }, `{"headers":{"apns-push-type":"alert"},"payload":{"aps":{"sound":"ping.aiff"}}}`, urgent},
		"badge removed":       {func(n *Notification) { n.Badge = new(int) }, `{"headers":{"apns-push-type":"alert"},"payload":{"aps":{"badge":0}}}`, urgent},
		"badge alone":         {func(n *Notification) { n.Body = ""; four := 4; n.Badge = &four }, `{"headers":{"apns-push-type":"alert"},"payload":{"aps":{"badge":4}}}`, urgent},
		"channel":             {func(n *Notification) { n.Channel = "c" }, `{"headers":{"apns-push-type":"alert"}}`, urgent},
		"image":               {func(n *Notification) { n.Image = "https://a/i" }, `{"headers":{"apns-push-type":"alert"},"payload":{"aps":{"mutable-content":1}},"fcm_options":{"image":"https://a/i"}}`, `{"headers":{"Urgency":"high"},"notification":{"image":"https://a/i"}}`},
		"collapse key, UTF-8": {func(n *Notification) { n.CollapseKey = "ö" }, `{"headers":{"apns-collapse-id":"DqI9c28iokIlU-bnB6LnUknPh8kQIBt6","apns-push-type":"alert"}}`, `{"headers":{"Topic":"DqI9c28iokIlU-bnB6LnUknPh8kQIBt6","Urgency":"high"},"notification":{"tag":"ö"}}`},
		"data alone":          {func(n *Notification) { n.Body = ""; n.Data = map[string]string{"k": "v"} }, `{"headers":{"apns-priority":"5","apns-push-type":"background"},"payload":{"aps":{"content-available":1}}}`, urgent},
		"voip":                {func(n *Notification) { silent(PushVoIP)(n); n.CollapseKey = "c" }, `{"headers":{"apns-collapse-id":"c"}}`, `{"headers":{"Topic":"W0xFniDx2xx07gzZv4x1cRZs_XGuC6u9","Urgency":"high"}}`},
		"Live Activity":       {silent(PushLiveActivity), ``, urgent},

		"raw header":         {raw(`{"apns":{"headers":{"apns-priority":"1"}}}`), `{"headers":{"apns-priority":"1","apns-push-type":"alert"}}`, urgent},
		"raw header, bulk":   {func(n *Notification) { n.Priority = Bulk; raw(`{"apns":{"headers":{"apns-priority":"10"}}}`)(n) }, `{"headers":{"apns-priority":"10","apns-push-type":"alert"}}`, ``},
		"raw header, case":   {raw(`{"apns":{"headers":{"APNS-Push-Type":"alert"}},"webpush":{"headers":{"urgency":"low"}}}`), `{"headers":{"APNS-Push-Type":"alert"}}`, `{"headers":{"urgency":"low"}}`},
		"raw header removed": {raw(`{"apns":{"headers":{"apns-push-type":null}},"webpush":{"headers":{"urgency":null}}}`), `{"headers":{}}`, `{"headers":{}}`},
		"raw sound": {func(n *Notification) {
			n.Sound = "s"
			raw(`{"apns":{"payload":{"aps":{"sound":{"critical":1,"name":"n"}}}}}`)(n)
		}, `{"headers":{"apns-push-type":"alert"},"payload":{"aps":{"sound":{"critical":1,"name":"n"}}}}`, urgent},
		"raw parts removed":     {raw(`{"apns":null,"webpush":null}`), ``, ``},
		"raw title alone":       {func(n *Notification) { n.Body = ""; raw(`{"notification":{"title":"t"}}`)(n) }, `{"headers":{"apns-push-type":"alert"}}`, urgent},
		"raw title, background": {func(n *Notification) { silent(PushBackground)(n); raw(`{"notification":{"title":"t"}}`)(n) }, `{"headers":{"apns-priority":"5","apns-push-type":"alert"},"payload":{"aps":{"content-available":1}}}`, ``},
		"raw alert alone":       {func(n *Notification) { n.Body = ""; raw(`{"apns":{"payload":{"aps":{"alert":"a"}}}}`)(n) }, `{"headers":{"apns-push-type":"alert"},"payload":{"aps":{"alert":"a"}}}`, urgent},
		"raw key for Android":   {func(n *Notification) { n.Body = ""; raw(`{"android":{"notification":{"title_loc_key":"k"}}}`)(n) }, `{"headers":{"apns-priority":"5","apns-push-type":"background"},"payload":{"aps":{"content-available":1}}}`, urgent},
		"raw texts": {func(n *Notification) {
			n.Subtitle, n.Image = "s", "https://a/i"
			raw(`{"notification":{"title":"t","body":null,"image":"https://a/j"}}`)(n)
		}, `{"fcm_options":{"image":"https://a/j"},"headers":{"apns-push-type":"alert"},"payload":{"aps":{"alert":{"subtitle":"s","title":"t"},"mutable-content":1}}}`, `{"headers":{"Urgency":"high"},"notification":{"image":"https://a/j"}}`},
		"raw data message":  {func(n *Notification) { n.CollapseKey, n.Image = "c", "https://a/i"; raw(`{"notification":null}`)(n) }, `{"headers":{"apns-collapse-id":"c","apns-priority":"5","apns-push-type":"background"},"payload":{"aps":{"content-available":1}}}`, `{"headers":{"Topic":"W0xFniDx2xx07gzZv4x1cRZs_XGuC6u9","Urgency":"high"}}`},
		"raw Live Activity": {raw(`{"apns":{"live_activity_token":"l","payload":{"aps":{"event":"end"}}}}`), `{"live_activity_token":"l","payload":{"aps":{"event":"end"}}}`, urgent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &Notification{ID: "i", App: "a", User: "u", Targets: []Target{{Platform: FCM, Token: "tok"}}, Body: "b"}
			test.change(n)
			must(t, n.Validate())
			message, err := n.RenderFCM(n.Targets[0], noon)
			must(t, err)
			var parts struct{ APNs, WebPush json.RawMessage }
			must(t, json.Unmarshal(message.JSON, &parts))
			if string(parts.APNs) != test.apns {
				t.Errorf("apns\n%s, want\n%s", parts.APNs, test.apns)
			}
			if string(parts.WebPush) != test.webpush {
				t.Errorf("webpush\n%s, want\n%s", parts.WebPush, test.webpush)
			}
		})
	}
}
