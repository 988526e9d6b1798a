package push

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/store"
)

// A lone surrogate is refused everywhere: decoding would make two different names equal.
func TestLoneSurrogateIsRefused(t *testing.T) {
	t.Parallel()
	for text, lone := range map[string]bool{
		`{"user":"\ud800"}`: true, `{"user":"\ud801"}`: true, `{"user":"\udc00"}`: true, `{"user":"\uD83D"}`: true,
		`{"user":"\ud83dx"}`: true, `{"user":"\ud83d\n"}`: true, `{"user":"\ud83d\ud83d\ude00"}`: true, `{"data":{"\udfff":""}}`: true,
		`{"user":"\ud83d\ude00"}`: false, `{"user":"😀\u0041"}`: false, `{"user":"\\ud800"}`: false, `{"user":"\\\\"}`: false, `{"user":"\uFFFD"}`: false, `{}`: false,
	} {
		if got := strictjson.CheckCharacters([]byte(text)) != nil; got != lone {
			t.Errorf("%s: %t", text, got)
		}
		if _, err := Parse([]byte(text)); (err != nil) != lone {
			t.Errorf("%s: %v", text, err)
		}
	}
	job, err := Encode(&Job{Notification: &Notification{ID: "1", App: "a", User: "half", Title: "t", Targets: []Target{{Platform: FCM, Token: "x"}}}, AcceptedAt: time.Now()})
	must(t, err)
	var malformed *store.MalformedError
	if _, err := Decode([]byte(strings.Replace(string(job), "half", `\ud800`, 1))); !errors.As(err, &malformed) || malformed.Reason != store.MalformedNotification {
		t.Errorf("from the queue: %v", err)
	}
}
