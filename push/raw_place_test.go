package push

import (
	"encoding/json"
	"strings"
	"testing"
)

func fcmBlock(raw string) func(*Notification) {
	return func(n *Notification) { n.FCM = json.RawMessage(raw) }
}

// A member of a raw block in the wrong place is refused, and the fault names the right place.
func TestMisplacedFieldIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	apns := func(raw string) func(*Notification) { return func(n *Notification) { n.APNs = json.RawMessage(raw) } }
	webPush := func(raw string) func(*Notification) {
		return func(n *Notification) { n.WebPush = json.RawMessage(raw) }
	}
	for name, test := range map[string]struct {
		change       func(*Notification)
		field, holds string
	}{
		"apns: payload":             {apns(`{"payload":{"aps":{"badge":1}}}`), "/apns/payload", "is the payload itself"},
		"apns: headers":             {apns(`{"headers":{"apns-priority":"5"}}`), "/apns/headers", "follow from push_type"},
		"apns: badge":               {apns(`{"badge":1}`), "/apns/badge", "belongs in aps, as badge"},
		"apns: content_available":   {apns(`{"content_available":true}`), "/apns/content_available", "as content-available"},
		"apns: mutableContent":      {apns(`{"mutableContent":1}`), "/apns/mutableContent", "as mutable-content"},
		"apns: fcm_options":         {apns(`{"fcm_options":{"image":"i"}}`), "/apns/fcm_options", "in the block fcm"},
		"apns: apns":                {apns(`{"apns":{"aps":{}}}`), "/apns/apns", "blocks of the notification"},
		"apns: aps.threadId":        {apns(`{"aps":{"threadId":"t"}}`), "/apns/aps/threadId", "its name is thread-id"},
		"apns: aps.alert.badge":     {apns(`{"aps":{"alert":{"badge":1}}}`), "/apns/aps/alert/badge", "belongs in aps.badge"},
		"apns: aps.channel_id":      {apns(`{"aps":{"channel_id":"c"}}`), "/apns/aps/channel_id", "the block fcm, in android.notification.channel_id"},
		"apns: aps.soud":            {apns(`{"aps":{"soud":"s"}}`), "/apns/aps/soud", "did you mean sound?"},
		"fcm: message":              {fcmBlock(`{"message":{"token":"t"}}`), "/fcm/message", "the block is the message itself"},
		"fcm: token":                {fcmBlock(`{"token":"t"}`), "/fcm/token", "the notification's targets"},
		"fcm: validate_only":        {fcmBlock(`{"validate_only":true}`), "/fcm/validate_only", "dry_run"},
		"fcm: title":                {fcmBlock(`{"title":"t"}`), "/fcm/title", "belongs in notification.title"},
		"fcm: aps":                  {fcmBlock(`{"aps":{"badge":1}}`), "/fcm/aps", "belongs in apns.payload.aps"},
		"fcm: android.collapseKey":  {fcmBlock(`{"android":{"collapseKey":"c"}}`), "/fcm/android/collapseKey", "its name is collapse_key"},
		"fcm: fcmOptions":           {fcmBlock(`{"fcmOptions":{"analyticsLabel":"c"}}`), "/fcm/fcmOptions", "its name is fcm_options"},
		"fcm: notification.sound":   {fcmBlock(`{"notification":{"sound":"s"}}`), "/fcm/notification/sound", "belongs in android.notification.sound or apns.payload.aps.sound"},
		"fcm: apns.aps":             {fcmBlock(`{"apns":{"aps":{"badge":1}}}`), "/fcm/apns/aps", "belongs in apns.payload.aps"},
		"fcm: apns.payload.headers": {fcmBlock(`{"apns":{"payload":{"headers":{}}}}`), "/fcm/apns/payload/headers", "beside payload"},
		"fcm: apns.payload's ID":    {fcmBlock(`{"apns":{"payload":{"pushpace_id":"x"}}}`), "/fcm/apns/payload/pushpace_id", "reserved"},
		"fcm: expires_at":           {fcmBlock(`{"expires_at":"x"}`), "/fcm/expires_at", "a field of the notification"},
		"fcm: web_push":             {fcmBlock(`{"app_badge":1}`), "/fcm/app_badge", "the block webpush, in app_badge"},
		"webpush: headers":          {webPush(`{"headers":{"TTL":"1"}}`), "/webpush/headers", "follow from priority"},
		"webpush: payload":          {webPush(`{"payload":{"notification":{"title":"t"}}}`), "/webpush/payload", "is the payload itself"},
		"webpush: fcm_options":      {webPush(`{"fcm_options":{"link":"l"}}`), "/webpush/fcm_options", "in the block fcm"},
		"webpush: aps":              {webPush(`{"aps":{}}`), "/webpush/aps", "in the block apns"},
		"webpush: in camel case":    {webPush(`{"notification":{"require_interaction":true}}`), "/webpush/notification/require_interaction", "its name is requireInteraction"},
		"webpush: null in an array": {webPush(`{"notification":{"actions":[{"action":"a","title":"t","icon":null}]}}`), "/webpush/notification/actions/0/icon", "inside an array"},
		"fcm: null in an array":     {fcmBlock(`{"android":{"notification":{"body_loc_args":["a",null]}}}`), "/fcm/android/notification/body_loc_args/1", "must be a string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := sample()
			test.change(n)
			f := faultsOf(t, n.Validate())
			if len(f) != 1 || f[0].Field != test.field || !strings.Contains(f[0].Problem, test.holds) {
				t.Errorf("faults %v, want one at %s with %q", f, test.field, test.holds)
			}
		})
	}
}

// Beside aps and in a payload for browsers, an app may have its own names.
func TestOwnNamesInRawBlocksAreAccepted(t *testing.T) {
	t.Parallel()
	n := sample()
	n.APNs = json.RawMessage(`{"payload":{"order":1},"data":{"k":[1,null]},"notification":{"id":5},"category":"own","event":"e","thread_id":"t","message":"m"}`)
	n.FCM = json.RawMessage(`{"apns":{"payload":{"payload":{"order":1},"data":{"a":1},"list":[null]}}}`)
	if err := n.Validate(); err != nil {
		t.Error(err)
	}
	n.APNs = json.RawMessage(`{"payload":"text","fcm":"text","apns":null}`)
	n.WebPush = json.RawMessage(`{"data":{"url":"/"},"payload":{"order":1},"title":"t","list":[null,{"a":null}]}`)
	if err := n.Validate(); err != nil {
		t.Error(err)
	}
}
