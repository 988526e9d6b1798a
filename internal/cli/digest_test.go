package cli

import (
	"errors"
	"testing"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// The status of a digested notification has the state of its carrier.
func TestStatusOfDigestedShowsCarrier(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		state push.State
		err   error
	}{
		"a-1, which was delivered":      {push.Delivered, nil},
		"a-1, which waits":              {push.Waiting, nil},
		"a-1, which expired":            {push.Expired, nil},
		"a-1, whose record has expired": {"", push.ErrUnknownID},
		"a-1: Redis is away":            {"", errors.New("Redis is away")},
	} {
		if got := digestedInto("a-1", &inspect.Status{Record: &store.Record{State: c.state}}, c.err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The flags of a digest give the notification a digest; without them it has none.
func TestDigestFlagsMakeADigest(t *testing.T) {
	t.Parallel()
	s := sending{digest: push.Digest{Key: "k", Title: "{count}"}}
	if err := s.complete(false); err != nil || s.n.Digest == nil || *s.n.Digest != s.digest {
		t.Errorf("%+v, %v", s.n.Digest, err)
	}
	s = sending{}
	if err := s.complete(false); err != nil || s.n.Digest != nil {
		t.Errorf("%+v, %v", s.n.Digest, err)
	}
}
