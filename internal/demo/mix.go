package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

// The demo's app, and the user who gets a flood of chat messages.
const (
	demoApp   = "demo"
	noisyUser = "sam"
)

// A planned is a notification n that the demo enqueues when the time at has passed since its start.
type planned struct {
	at time.Duration
	n  push.Notification
}

var demoUsers = []string{
	"ada", "ben", "cleo", "dan", "eva", "finn", "gita", "hugo", "ida", "jon",
	"kim", "leo", "mia", "noa", "otto", "pia", "quin", "rosa", noisyUser, "tom",
}

// demoMix returns the demo's notifications, sorted by time. Under the shipped limits all of them
// end within about ten seconds.
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
	typing.TTL = push.Duration(2 * time.Second) // it expires before its slot
	for i := range 3 {
		add(time.Duration(2*i+2)*time.Second, noisyUser, "security", fmt.Sprintf("Your code is %d", 771204+i), push.Critical)
	}
	slices.SortStableFunc(mix, func(a, b planned) int { return int(a.at - b.at) })
	return mix
}

// devices returns the user's devices. The stand-ins' answer depends on how a token begins.
func devices(user string) []push.Target {
	android := push.Target{Platform: push.FCM, Token: user + "-pixel:APA91bExample"}
	iPhone := func(begins string) push.Target {
		return push.Target{Platform: push.APNs, Token: begins + fmt.Sprintf("%064x", user)[len(begins):]}
	}
	switch user {
	case "jon": // registers by Firebase Installation ID
		return []push.Target{{Platform: push.FCM, FID: "deQ7zv1tRk2bX0mYw9sLpA"}}
	case "dan": // lost an old iPhone
		return []push.Target{iPhone("deaddead"), android}
	case "gita": // uninstalled the app
		return []push.Target{iPhone("deaddead")}
	case "quin": // gets the first push after a retry: the provider is overloaded
		return []push.Target{iPhone("fade1503")}
	case "leo", "rosa":
		return []push.Target{laptop(user + "-laptop")}
	}
	if user[0]%2 == 0 {
		return []push.Target{android}
	}
	return []push.Target{iPhone("")}
}

// laptop returns a browser's subscription at Google's push service. The stand-in's answer depends
// on name.
func laptop(name string) push.Target {
	return webpushtest.Subscription(webpushtest.Endpoint(push.WebPushGoogle, name))
}
