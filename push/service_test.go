package push

import (
	"slices"
	"testing"
)

func TestServiceFollowsFromTarget(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]Platform{
		"https://fcm.googleapis.com/fcm/send/a":              "google",
		"https://FCM.googleapis.com/wp/a":                    "google",
		"https://fcm.googleapis.com:443/wp/a":                "google",
		"https://jmt17.google.com/fcm/send/a":                "google",
		"https://android.googleapis.com/gcm/send/a":          "google",
		"https://updates.push.services.mozilla.com/wpush/v2": "mozilla",
		"https://web.push.apple.com/a":                       "apple",
		"https://a.b.push.apple.com/a":                       "apple",
		"https://wns2-by3p.notify.windows.com/w/?token=a":    "windows",
		"https://push.apple.com/a":                           "other",
		"https://.push.apple.com/a":                          "other",
		"https://evilpush.apple.com/a":                       "other",
		"https://web.push.apple.com.example.org/a":           "other",
		"https://x.fcm.googleapis.com/a":                     "other",
		"https://fcm.googleapis.com@127.0.0.1/a":             "other",
		"https://10.0.0.1/fcm.googleapis.com/":               "other",
		"https://up.example.org/a":                           "other",
		"https://fcm.googleapis.com:8443/wp/a":               "other",
		"https://[::1":                                       "other",
		"":                                                   "other",
	} {
		got := Target{Platform: PlatformWebPush, Token: endpoint}.Service()
		if got != "webpush:"+want {
			t.Errorf("%s: %s, want %s", endpoint, got, want)
		}
		if !slices.Contains(Services(PlatformWebPush), got) {
			t.Errorf("%s is none of %q", got, Services(PlatformWebPush))
		}
	}
	for p, services := range map[Platform][]Platform{APNs: {APNs}, FCM: {FCM, FCMFID}} {
		if got := (Target{Platform: p, Token: "https://web.push.apple.com/a"}).Service(); got != p || !slices.Equal(Services(p), services) {
			t.Errorf("%s: %s of %q", p, got, Services(p))
		}
	}
	if got := (Target{Platform: FCM, FID: "f"}).Service(); got != FCMFID || PlatformOf(got) != FCM || !Covers(FCM, got) || Covers(got, FCM) {
		t.Errorf("a FID's service is %s", got)
	}
	if got := len(Services(PlatformWebPush)); got != 5 {
		t.Errorf("%d services", got)
	}
	all := PlatformsAndServices()
	if want := append([]Platform{APNs, FCM, FCMFID, PlatformWebPush}, Services(PlatformWebPush)...); !slices.Equal(all, want) {
		t.Errorf("%q, want %q", all, want)
	}
	for _, p := range append(all, "webpush:nobody", "apns:apns", "pigeon", "") {
		if Known(p) != slices.Contains(all, p) {
			t.Errorf("%q is known: %v", p, Known(p))
		}
	}
}
