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
		got := size(message)
		for _, target := range []string{"token", "topic", "condition"} {
			delete(message, target)
		}
		var want bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(message); err != nil {
			t.Fatal(err)
		}
		if got != want.Len()-len("\n") {
			t.Errorf("%d bytes, want %d: %s", got, want.Len()-len("\n"), want.Bytes())
		}
	})
}
