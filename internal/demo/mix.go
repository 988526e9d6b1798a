package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

// The demo's app, and its user with a flood of chat messages.
const (
	demoApp   = "demo"
	noisyUser = "sam"
)

// A planned notification is one that the demo enqueues, at that time after its start.
type planned struct {
	at time.Duration
	n  push.Notification
}

var demoUsers = []string{
	"ada", "ben", "cleo", "dan", "eva", "finn", "gita", "hugo", "ida", "jon",
	"kim", "leo", "mia", "noa", "otto", "pia", "quin", "rosa", noisyUser, "tom",
}

// demoMix returns the demo's notifications in the order of time. Under the shipped limits
// all of them end within some ten seconds.
func demoMix() []planned {
	var mix []planned
	add := func(at time.Duration, user, category, title string, p push.Priority) *push.Notification {
		mix = append(mix, planned{at, push.Notification{
			ID: fmt.Sprintf("demo-%s-%s-%d", user, category, len(mix)), App: demoApp, User: user, Category: category,
			Title: title, Priority: p, Targets: devices(user),
		}})
		return &mix[len(mix)-1].n
	}
	for i, user := range demoUsers {
		if user == noisyUser {
			continue
		}
		at := time.Duration(i) * 120 * time.Millisecond
		add(at, user, "orders", "Your order has been paid", push.Default)
		add(at, user, "orders", "Your order has shipped", push.Default)
		add(at, user, "marketing", "This week's offers", push.Bulk)
		if i%4 == 0 {
			add(at+1500*time.Millisecond, user, "security", fmt.Sprint("Your code is ", 482913+i), push.Critical)
		}
	}
	for i := range 10 { // as many as the limits admit in a minute
		add(300*time.Millisecond, noisyUser, "chat", fmt.Sprintf("Message %d", i+1), push.Default)
	}
	typing := add(400*time.Millisecond, noisyUser, "chat", "Somebody is typing", push.Default)
	typing.TTL = push.Duration(2 * time.Second) // its slot is later
	for i := range 3 {
		add(time.Duration(2*i+2)*time.Second, noisyUser, "security", fmt.Sprintf("Your code is %d", 771204+i), push.Critical)
	}
	slices.SortStableFunc(mix, func(a, b planned) int { return int(a.at - b.at) })
	return mix
}

// devices are the user's. A token's beginning says how the stand-ins answer.
func devices(user string) []push.Target {
	android := push.Target{Platform: push.FCM, Token: user + "-pixel:APA91bExample"}
	iPhone := func(begins string) push.Target {
		return push.Target{Platform: push.APNs, Token: begins + fmt.Sprintf("%064x", user)[len(begins):]}
	}
	switch user {
	case "jon": // whose app is registered by its Firebase Installation ID
		return []push.Target{{Platform: push.FCM, FID: "deQ7zv1tRk2bX0mYw9sLpA"}}
	case "dan": // has lost his old iPhone
		return []push.Target{iPhone("deaddead"), android}
	case "gita": // has uninstalled the app
		return []push.Target{iPhone("deaddead")}
	case "quin": // whose first push meets an overloaded provider
		return []push.Target{iPhone("fade1503")}
	case "leo", "rosa":
		return []push.Target{laptop(user + "-laptop")}
	}
	if user[0]%2 == 0 {
		return []push.Target{android}
	}
	return []push.Target{iPhone("")}
}

// laptop is a browser that has subscribed at Google's push service under the name, which says how
// the stand-in answers.
func laptop(name string) push.Target {
	return webpushtest.Subscription(webpushtest.Endpoint(push.WebPushGoogle, name))
}
