//go:build soak && unix

package soak

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/judge"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// soakZones are the users' zones, in turn. "" means no zone; in the last zone the quiet hours are not
// during the soak.
var soakZones = []string{"", "Asia/Kolkata", "Etc/GMT+12"}

// zoneNamed returns the time zone in the user's news notifications.
func zoneNamed(user string) string {
	i := 0
	fmt.Sscanf(user, "user-%d", &i)
	return soakZones[i%len(soakZones)]
}

// clocks returns the location of the named zone; UTC for "".
func clocks(t *testing.T, named string) *time.Location {
	t.Helper()
	in, err := zone.Load(cmp.Or(named, "UTC"))
	rig.Must(t, err)
	return in
}

// soakHours returns the quiet hours of news. During a soak, users on UTC have quiet hours in every
// second interval of some minutes, and users in Kolkata in the intervals between. An interval is
// shorter than the wait for the last notifications to end.
func soakHours(t *testing.T, now time.Time, length time.Duration) (hours quiet.Hours) {
	t.Helper()
	const most = 16                                                      // windows
	stretch := (length/(most-1) + time.Minute - 1).Truncate(time.Minute) // the first window has begun before now
	stretch = min(stretch, 10*time.Minute)
	for i := range most {
		from := now.Add(time.Duration(i) * stretch).In(clocks(t, soakZones[i%2]))
		window, err := quiet.Parse(from.Format("15:04-") + from.Add(stretch).Format("15:04"))
		rig.Must(t, err)
		hours = append(hours, window)
	}
	return hours
}

// makeNews makes the notification news; most are digests.
func makeNews(n *push.Notification, r *rand.Rand) {
	n.User, n.Category = fmt.Sprint("user-", r.IntN(soakReaders)), news
	n.TimeZone, n.Title = zoneNamed(n.User), n.ID
	n.Targets = []push.Target{{Platform: push.FCM, Token: "reader-" + n.User}}
	if r.IntN(4) == 0 {
		n.TTL = push.Duration(time.Duration(1+r.IntN(40)) * time.Second)
	}
	if r.IntN(4) > 0 {
		n.Digest = judge.TellingDigest(fmt.Sprint("topic-", r.IntN(2)))
	}
}
