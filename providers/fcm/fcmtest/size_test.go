package fcmtest

import (
	"encoding/json"
	"testing"
)

// Each kind of device has 4096 bytes of its own, without headers and without the texts
// that its own part replaces.
func TestSizeIsOfTheLargestDevice(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		bytes  int
		device string
	}{
		`{"token":"t","data":{"k":"v"}}`:                                         {len(`{"data":{"k":"v"}}`), "APNS"},
		`{"data":{"k":"v"},"android":{"ttl":"1s"},"apns":{"headers":{"a":"b"}}}`: {len(`{"data":{"k":"v"},"android":{"ttl":"1s"}}`), "Android"},
		`{"notification":{"title":"t"},"apns":{"payload":{"aps":{"alert":{"title":"longer"}}}}}`: {
			len(`{"notification":{},"apns":{"payload":{"aps":{"alert":{"title":"longer"}}}}}`), "APNS",
		},
		`{"notification":{"image":"i"},"webpush":{"notification":{"image":"longer"}}}`: {
			len(`{"notification":{},"webpush":{"notification":{"image":"longer"}}}`), "Webpush",
		},
	} {
		var message map[string]any
		if err := json.Unmarshal([]byte(text), &message); err != nil {
			t.Fatal(err)
		}
		if n, device := size(message); n != want.bytes || device != want.device {
			t.Errorf("%s: %d bytes for %s, want %d for %s", text, n, device, want.bytes, want.device)
		}
	}
}
