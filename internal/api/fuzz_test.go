package api

import (
	"encoding/json"
	"testing"

	"github.com/pushpace/pushpace/push"
)

// Whatever comes as a batch is split into what a plain decoder finds in it, or
// refused; and what is parsed is what a plain decoder reads.
func FuzzBatch(f *testing.F) {
	for _, seed := range []string{
		"[]", "[1]", "[{}]", "[{},{}", "{}", "[[[[", `["]",{"a":"\"]"}]`, " [ null , { } ] ", "[1]2", "[\x00]", "[" + notification("a", "b") + "]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		items, err := split(body)
		if err != nil {
			if p := problemOf(err); p.Status != 400 || len(p.Errors) == 0 {
				t.Fatalf("%+v", p)
			}
			return
		}
		var plain []any
		if err := json.Unmarshal(body, &plain); err != nil || len(plain) != len(items) {
			t.Fatalf("%d items, %d by a plain decoder: %v", len(items), len(plain), err)
		}
		for _, item := range items {
			n, err := push.Parse(item)
			if err != nil {
				if r := resultOf(0, push.Result{Err: err}); r.Status != 400 || len(r.Errors) == 0 {
					t.Fatalf("%+v", r)
				}
				continue
			}
			again, err := json.Marshal(n)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := push.Parse(again); err != nil && len(again) <= push.MaxEncodedSize {
				t.Fatalf("%s: %v", again, err)
			}
		}
	})
}
