package push

import (
	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// fcmDevices are the kinds of devices by the message's part for each.
var fcmDevices = []struct{ part, name string }{
	{"android", "Android"}, {"apns", "Apple devices"}, {"webpush", "browsers"},
}

// checkFCMSize checks a message without its token or FID. FCM derives a message for the kind of device,
// and refuses a derived message of more than 4096 bytes ("Android message is too big"). It counts names
// and values of the payload. checkFCMSize counts the whole JSON without headers and without texts that
// the device's part replaces, which is a little stricter. Sources: FCM, "Customize a message across
// platforms"; firebase-admin-go, issue 580.
func checkFCMSize(message []byte) error {
	if len(message) <= MaxFCMMessage { // as nearly all messages
		return nil
	}
	largest, device := 0, ""
	for _, d := range fcmDevices {
		var m map[string]any
		if err := strictjson.Decode(message, &m); err != nil {
			return err
		}
		reduceTo(m, d.part)
		text, err := strictjson.Encode(m)
		if err != nil {
			return err
		}
		if len(text) > largest {
			largest, device = len(text), d.name
		}
	}
	if largest > MaxFCMMessage {
		return fielderrors.New("", "is %d bytes as FCM's message for %s without its token, at most %d are taken", largest, device, MaxFCMMessage)
	}
	return nil
}

// reduceTo removes from a message all members that do not count for the devices of the part.
func reduceTo(message map[string]any, part string) {
	for _, d := range fcmDevices {
		if d.part != part {
			delete(message, d.part)
		}
	}
	own, texts := member(message, part), member(message, "notification")
	delete(own, "headers")
	shown := member(own, "notification")
	if part == "apns" {
		if member(member(own, "payload"), "aps")["alert"] != nil {
			delete(texts, "title")
			delete(texts, "body")
		}
		shown = member(own, "fcm_options")
	}
	for _, name := range []string{"title", "body", "image"} {
		if shown[name] != nil {
			delete(texts, name)
		}
	}
}
