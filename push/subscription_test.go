package push

import (
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
