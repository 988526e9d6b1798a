package push

import (
	"slices"
	"strings"
	"testing"
)

func TestEndpointRefusesURLOfNoSubscription(t *testing.T) {
	t.Parallel()
	for text, host := range map[string]string{
		"https://fcm.googleapis.com/wp/abc:APA91b":               "fcm.googleapis.com",
		"https://FCM.GoogleAPIs.com./wp/abc":                     "fcm.googleapis.com",
		"https://web.push.apple.com:443/QGuQyavXutnMH":           "web.push.apple.com",
		"https://wns2-par02p.notify.windows.com/w/?token=BQY%3d": "wns2-par02p.notify.windows.com",
		"https://push.example.net?x=1":                           "push.example.net",
	} {
		e, err := Endpoint(text)
		if err != nil || e.Host != host {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
		if _, after, _ := strings.Cut(text[len("https://"):], "/"); after != "" && e.RequestURI() != "/"+after {
			t.Errorf("%s becomes %s", text, e.RequestURI())
		}
	}
	for _, text := range []string{
		"", "x", "http://fcm.googleapis.com/x", "https:fcm.googleapis.com", "https:///x", "//fcm.googleapis.com/x",
		"https://fcm.googleapis.com:8443/x", "https://fcm.googleapis.com:/x", "https://fcm.googleapis.com@127.0.0.1/x", "https://u:p@fcm.googleapis.com/x",
		"https://fcm.googleapis.com/x#y", "https://fcm.googleapis.com/x#", "https://127.0.0.1/x", "https://127.1/x", "https://0x7f.1/x", "https://2130706433/x",
		"https://[::1]/x", "https://[::ffff:127.0.0.1]/x", "https://localhost/x", "https://fcm..com/x", "https://.com/x",
		"https://fcm.googleapis.com/a b", "https://fcm.googleapis.com/…", "https://fcm.googleapis.com/\x00", "https://fcm.googleapis.com\\@a.example/x",
		"https://fcm.googleapis.com/" + strings.Repeat("a", MaxEndpointBytes), "https://f%63m.googleapis.com/x", "https://" + strings.Repeat("a", 64) + ".com/x",
	} {
		e, err := Endpoint(text)
		if err == nil {
			t.Errorf("%q is taken as %s", text, e)
		} else if len(text) > 10 && strings.Contains(err.Error(), text) {
			t.Errorf("the error holds the endpoint: %v", err)
		}
	}
}

// A device is the same however its token is written.
func TestDeviceIsEqualForEachFormOfToken(t *testing.T) {
	t.Parallel()
	device := func(p Platform, token string) Target {
		return Target{Platform: p, Token: token, Keys: new(Keys)}.Device()
	}
	for _, c := range []struct {
		platform Platform
		a, b     string
		same     bool
	}{
		{APNs, "00AB", "00ab", true}, {APNs, "00ab", "00ac", false},
		{FCM, "AB", "ab", false},
		{PlatformWebPush, "https://fcm.googleapis.com/a", "https://FCM.googleapis.com.:443/a", true},
		{PlatformWebPush, "https://fcm.googleapis.com/a", "https://fcm.googleapis.com/A", false},
		{PlatformWebPush, "https://wns.notify.windows.com/w/?token=a%3d", "https://wns.notify.windows.com:443/w/?token=a%3d", true},
		{PlatformWebPush, "no endpoint", "no endpoint", true},
	} {
		if same := device(c.platform, c.a) == device(c.platform, c.b); same != c.same {
			t.Errorf("%s and %s are the same: %v", c.a, c.b, same)
		}
	}
	if device(APNs, "ab") == device(FCM, "ab") {
		t.Error("platforms share devices")
	}
}

func FuzzEndpoint(f *testing.F) {
	for _, text := range []string{"https://fcm.googleapis.com/wp/a", "https://a@b", "https://[::1]", "https://a.b:443/%2e?x#y"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Endpoint(text)
		if err == nil && (e.Scheme != "https" || !IsHostName(e.Host) || e.User != nil || e.Fragment != "" || sameEndpoint(e.String()) != e.String()) {
			t.Errorf("%q becomes %#v", text, e)
		}
	})
}

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
