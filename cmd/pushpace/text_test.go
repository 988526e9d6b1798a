//go:build unix

package main

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace"
)

func TestSendFileTakesByteOrderMark(t *testing.T) {
	t.Parallel()
	dir := write(t, "config.yaml", string(pushpace.ConfigYAML))
	s := setup{dir: dir, env: []string{"PUSHPACE_REDIS__ADDRESS=127.0.0.1:1"}} // where nothing answers
	one, two := notification("one", "ada", "", "apns", "00"), notification("two", "ada", "", "apns", "00")
	marked := "\ufeff" + strings.ReplaceAll(one, "\n", "\r\n") + "\ufeff" + two // as two files, concatenated
	for _, file := range []string{filepath.Join(write(t, "marked.ndjson", marked), "marked.ndjson"), "-"} {
		s.stdin = strings.NewReader(marked)
		got := ended(t, s, "send", "--dry-run", "--json", "--file", file)
		if got.status != exitDone || !strings.Contains(got.stdout, `{"line":1,"id":"one"`) || !strings.Contains(got.stdout, `{"line":2,"id":"two"`) {
			t.Errorf("%s: %+v", file, got)
		}
	}
	wide := "\xff\xfe" + strings.Join(strings.Split(one, ""), "\x00") + "\x00"
	file := filepath.Join(write(t, "wide.ndjson", wide), "wide.ndjson")
	for name, args := range map[string][]string{
		file:             {"send", "--dry-run", "--file", file},
		"standard input": {"send", "--file", "-"},
	} {
		s.stdin = strings.NewReader(wide)
		got := ended(t, s, args...)
		if got.status != exitUsage || got.stdout != "" || !strings.Contains(got.stderr, "--file: "+name+": is in UTF-16: save it as UTF-8") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestOverridesTakeByteOrderMark(t *testing.T) {
	t.Parallel()
	override := `{"user":"ada","min_gap":"1s"}` + "\r\n"
	read, err := readOverrides(strings.NewReader("\ufeff"+override+"\ufeff"+strings.Replace(override, "ada", "bob", 1)), time.Hour)
	if err != nil || len(read.all) != 2 {
		t.Errorf("%+v, %v", read, err)
	}
}

func TestSubscriptionFileTakesByteOrderMark(t *testing.T) {
	t.Parallel()
	key := func(n int) string { return base64.RawURLEncoding.EncodeToString(make([]byte, n)) }
	text := fmt.Sprintf(`{"endpoint":"https://updates.push.services.mozilla.com/x","keys":{"p256dh":%q,"auth":%q}}`, key(65), key(16))
	file := filepath.Join(write(t, "s.json", "\ufeff"+text), "s.json")
	if target, err := readSubscription(file); err != nil || target.Keys == nil {
		t.Error(err)
	}
	file = filepath.Join(write(t, "s.json", "\xff\xfe{\x00"), "s.json")
	if _, err := readSubscription(file); err == nil || !strings.HasPrefix(err.Error(), file+": is in UTF-16") {
		t.Error(err)
	}
}
