package api

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/push"
)

// A batch is refused, or has the items that a plain decoder finds, each parsed as if it had come
// alone.
func FuzzBatch(f *testing.F) {
	for _, seed := range []string{
		"[]", "[1]", "[{}]", "[{},{}", "{}", "[[[[", `["]",{"a":"\"]"}]`, " [ null , { } ] ", "[1]2", "[\x00]", "[" + notification("a", "b") + "]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		items, err := parseAll(body)
		if err != nil {
			if p := problems.Of(err); p.Status != 400 || len(p.Errors) == 0 {
				t.Fatalf("%+v", p)
			}
			return
		}
		var plain []json.RawMessage
		if err := json.Unmarshal(body, &plain); err != nil || len(plain) != len(items) {
			t.Fatalf("%d items, %d by a plain decoder: %v", len(items), len(plain), err)
		}
		for i, item := range items {
			n, err := push.Parse(plain[i])
			if !reflect.DeepEqual(item, operate.Parsed{Notification: n, Err: err}) {
				t.Fatalf("%+v and alone %+v, %v", item, n, err)
			}
			if err != nil {
				if r := resultOf(0, operate.Result{Result: push.Result{Err: err}}); r.Status != 400 || len(r.Errors) == 0 {
					t.Fatalf("%+v", r)
				}
				continue
			}
			again, err := json.Marshal(n)
			must(t, err)
			if _, err := push.Parse(again); err != nil && len(again) <= push.MaxEncodedSize {
				t.Fatalf("%s: %v", again, err)
			}
		}
	})
}
