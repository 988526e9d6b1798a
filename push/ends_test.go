package push

import (
	"slices"
	"testing"
	"time"
)

func TestNamesWithSpaceAtEndAreRefused(t *testing.T) {
	t.Parallel()
	for field, set := range map[string]func(n *Notification, s string){
		"/id": func(n *Notification, s string) { n.ID = s }, "/app": func(n *Notification, s string) { n.App = s },
		"/user": func(n *Notification, s string) { n.User = s }, "/category": func(n *Notification, s string) { n.Category = s },
		"/collapse_key": func(n *Notification, s string) { n.CollapseKey = s }, "/thread": func(n *Notification, s string) { n.Thread = s },
		"/channel": func(n *Notification, s string) { n.Channel = s }, "/sound": func(n *Notification, s string) { n.Sound = s },
		"/digest/key": func(n *Notification, s string) { n.CollapseKey, n.Digest = "", &Digest{Key: s} },
		"/time_zone":  func(n *Notification, s string) { n.TimeZone = s },
	} {
		for _, name := range []string{"Europe/Berlin ", " Europe/Berlin", "Europe/Berlin\u00a0", "Europe/Berlin\u3000", "Europe/Berlin\u200b", "Europe/Berlin\t", "Europe/Berlin\n"} {
			n := sample()
			set(n, name)
			f := faultsOf(t, n.Validate())
			if len(f) != 1 || f[0].Field != field {
				t.Errorf("%s %q: %v", field, name, f)
			}
			if ascii := name == "Europe/Berlin "; ascii && f[0].Problem != "ends in a space: remove it" {
				t.Errorf("%s: %v", field, f)
			}
		}
		n := sample()
		if set(n, "Europe/Berlin"); n.Validate() != nil {
			t.Errorf("%s: %v", field, n.Validate())
		}
	}
	n := sample()
	n.Image += "\u00a0"
	if f := faultsOf(t, n.Validate()); !slices.Equal(fields(f), []string{"/image"}) {
		t.Errorf("an image: %v", f)
	}
	n = sample()
	n.Title, n.Subtitle, n.Body = " Shipped ", " ", "soon\n"
	if err := n.Validate(); err != nil {
		t.Errorf("free text: %v", err)
	}
}

// An older Producer accepted names with a space at the end, and its jobs must not be lost.
func TestJobWithSpaceAtEndOfNameIsDecoded(t *testing.T) {
	t.Parallel()
	n := sample()
	n.ID, n.User, n.Category, n.CollapseKey = "x ", "dup ", "news\u00a0", "k "
	payload, err := Encode(&Job{Notification: n, AcceptedAt: time.Now()})
	must(t, err)
	if job, err := Decode(payload); err != nil || job.Notification.User != "dup " {
		t.Error(err)
	}
}
