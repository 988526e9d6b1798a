package fcmtest

import (
	"bytes"
	"encoding/json"
	"testing"
)

func FuzzSize(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"token":"t"}`, `{"token":"t","topic":"x","condition":"c"}`, `{"data":{"a":"b"},"token":"t"}`,
		`{"a":[1,2.50,-1e9,null,true,false,[],{}],"b":"\"\\\b\f\n\r\t\u0001\u007f<>&\u2028\u2029é👍"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		var message map[string]any
		if decoder.Decode(&message) != nil || message == nil {
			return
		}
		got := jsonSize(message)
		if n, _ := size(message); n > got {
			t.Errorf("%d bytes count of %d", n, got)
		}
		var want bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		must(t, encoder.Encode(message))
		if got != want.Len()-len("\n") {
			t.Errorf("%d bytes, want %d: %s", got, want.Len()-len("\n"), want.Bytes())
		}
	})
}

// Each kind of device has 4096 bytes of its own, without headers and without the common texts that
// its own part replaces.
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
		must(t, json.Unmarshal([]byte(text), &message))
		if n, device := size(message); n != want.bytes || device != want.device {
			t.Errorf("%s: %d bytes for %s, want %d for %s", text, n, device, want.bytes, want.device)
		}
	}
}
