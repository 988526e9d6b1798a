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

// soakZones are those of the users, in turn. Those of the first name none; the last's quiet
// hours are at another time of the day.
var soakZones = []string{"", "Asia/Kolkata", "Etc/GMT+12"}

// zoneNamed is the zone that the user's news name.
func zoneNamed(user string) string {
	i := 0
	fmt.Sscanf(user, "user-%d", &i)
	return soakZones[i%len(soakZones)]
}

// clocks are those of the zone that news name.
func clocks(t *testing.T, named string) *time.Location {
	t.Helper()
	in, err := zone.Load(cmp.Or(named, "UTC"))
	rig.Must(t, err)
	return in
}

// soakHours are the quiet hours of news. From now on for the length of a soak, those who live
// by UTC are left alone in every other stretch of minutes, and those in Kolkata in the ones
// between. No stretch is longer than the wait for the last ones' ends.
func soakHours(t *testing.T, now time.Time, length time.Duration) (hours quiet.Hours) {
	t.Helper()
	const most = 16                                                      // windows
	stretch := (length/(most-1) + time.Minute - 1).Truncate(time.Minute) // the first has begun
	stretch = min(stretch, 10*time.Minute)
	for i := range most {
		from := now.Add(time.Duration(i) * stretch).In(clocks(t, soakZones[i%2]))
		window, err := quiet.Parse(from.Format("15:04-") + from.Add(stretch).Format("15:04"))
		rig.Must(t, err)
		hours = append(hours, window)
	}
	return hours
}

// makeNews makes the notification news, of which one push tells of several, but for some.
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
