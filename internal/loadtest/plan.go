package loadtest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// appName is the app of all notifications.
const appName = "bench"

// limits are each user's: a minimum gap and a rate.
var limits = throttle.Policy{MinGap: 5 * time.Second, Rates: []throttle.Rate{{Count: 2, Period: 15 * time.Second}}}

// A round is ten notifications to eight users. The first user gets three at once: the gap
// puts off the second of them, and the rate the third.
const (
	round      = 10
	roundUsers = 8
	burst      = 3
)

// A plan is the load: the number of users, and of notifications to them, in rounds.
type plan struct{ users, notifications int }

// newPlan returns a plan. If notifications is 0, each user is in one round.
func newPlan(users, notifications int) plan {
	if notifications == 0 {
		notifications = users * round / roundUsers
	}
	return plan{users, notifications}
}

// user returns the number of the user who gets the i-th notification.
func (p plan) user(i int) int {
	place := max(0, i%round-burst+1)
	return (i/round*roundUsers + place) % p.users
}

// putOff reports whether an earlier notification of the same round puts off the i-th.
func (p plan) putOff(i int) bool { return i%round > 0 && i%round < burst }

// notification returns the i-th notification. Half of the users have an iPhone.
func (p plan) notification(i int) *push.Notification {
	user := p.user(i)
	target := push.Target{Platform: push.APNs, Token: strings.Repeat("a1", 28) + fmt.Sprintf("%08x", user)}
	if user%2 == 1 {
		target = push.Target{Platform: push.FCM, Token: "phone-" + strconv.Itoa(user) + ":APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx"}
	}
	return &push.Notification{
		ID: idPrefix + strconv.Itoa(i), App: appName, User: userName(user), Targets: []push.Target{target},
		Title: "Your order is on its way",
		Body:  "Order " + strconv.Itoa(i) + " has left the warehouse and arrives tomorrow between 10 and 12.",
	}
}

const idPrefix = "n-"

// index returns i for the ID of the i-th notification, and false for any other ID.
func (p plan) index(id string) (i int, ok bool) {
	number, ok := strings.CutPrefix(id, idPrefix)
	i, err := strconv.Atoi(number)
	return i, ok && err == nil && i >= 0 && i < p.notifications
}

func userName(user int) string { return "user-" + strconv.Itoa(user) }
