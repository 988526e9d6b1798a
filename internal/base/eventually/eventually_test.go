package eventually

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		comes time.Duration
		want  bool
	}{"at once": {0, true}, "later": {900 * time.Millisecond, true}, "too late": {2 * time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				got := Within(time.Second, func() bool { return time.Since(began) >= c.comes })
				took := time.Since(began)
				if got != c.want || took < min(c.comes, time.Second) || took > min(c.comes+20*time.Millisecond, time.Second) {
					t.Errorf("%v after %s", got, took)
				}
			})
		})
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	var l Log
	_, _ = io.WriteString(&l, "a")
	if said, taken := l.String(), l.Take(); said != "a" || taken != "a" || l.String() != "" {
		t.Errorf("%q, %q and then %q", said, taken, &l)
	}
}
