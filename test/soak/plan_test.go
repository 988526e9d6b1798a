//go:build soak && unix

package soak

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// The soak's users and categories.
const (
	soakUsers   = 300
	soakReaders = 20 // the first users, who get news, which quiet hours hold
	soakRate    = 60 // notifications a second
	rare        = "rare"
	security    = "security"
	news        = "news"
)

// The limits of the soak. A user receives at most one rare notification during the soak: a second one
// means that a used slot was given back.
var (
	soakDefault = throttle.Policy{MinGap: 200 * time.Millisecond, Rates: []throttle.Rate{{Count: 20, Period: 10 * time.Second}}}
	soakOrders  = throttle.Policy{Rates: []throttle.Rate{{Count: 4, Period: 4 * time.Second}}}
	soakRare    = throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: 12 * time.Hour}}}
)

// A mishap is a trouble or an operator's action at an instant of the soak.
type mishap struct {
	At   time.Duration
	Kind mishapKind
	N    int           // which worker, user, answer, …
	For  time.Duration // duration, for a kind that ends
}

type mishapKind string

const (
	killWorker    mishapKind = "kill a worker"
	stopWorker    mishapKind = "freeze a worker"
	endWorker     mishapKind = "end a worker"
	killAPI       mishapKind = "kill the API"
	killRedis     mishapKind = "kill Redis"
	hangRedis     mishapKind = "freeze Redis"
	fillRedis     mishapKind = "fill Redis"
	refuseWrites  mishapKind = "have Redis refuse writes"
	changeSecret  mishapKind = "change Redis's password"
	flushScripts  mishapKind = "flush Redis's scripts"
	dropClients   mishapKind = "drop Redis's clients"
	breakAPNs     mishapKind = "break APNs"
	breakFCM      mishapKind = "break FCM"
	expireAccess  mishapKind = "expire FCM's access tokens"
	changeLimit   mishapKind = "change a limit"
	restoreLimit  mishapKind = "restore a limit"
	pauseSome     mishapKind = "pause"
	muteSome      mishapKind = "mute"
	cancelSome    mishapKind = "cancel"
	requeueSome   mishapKind = "requeue dead letters"
	enqueueBroken mishapKind = "enqueue a hostile job"
)

// mishaps has the relative frequency of each kind, and bounds of its duration.
var mishaps = []struct {
	kind        mishapKind
	weight      int
	least, most time.Duration
}{
	{killWorker, 10, 0, 0},
	{stopWorker, 4, 200 * time.Millisecond, 4 * time.Second},
	{endWorker, 2, 0, 0},
	{killAPI, 1, 0, 0},
	{killRedis, 2, 0, 0},
	{hangRedis, 2, 300 * time.Millisecond, 3 * time.Second},
	{fillRedis, 2, time.Second, 3 * time.Second},
	{refuseWrites, 1, time.Second, 2 * time.Second},
	{changeSecret, 1, time.Second, 2 * time.Second},
	{flushScripts, 2, 0, 0},
	{dropClients, 1, 0, 0},
	{breakAPNs, 3, 500 * time.Millisecond, 4 * time.Second},
	{breakFCM, 3, 500 * time.Millisecond, 4 * time.Second},
	{expireAccess, 1, 0, 0},
	{changeLimit, 8, 0, 0},
	{restoreLimit, 4, 0, 0},
	{pauseSome, 3, 500 * time.Millisecond, 4 * time.Second},
	{muteSome, 3, 500 * time.Millisecond, 4 * time.Second},
	{cancelSome, 6, 0, 0},
	{requeueSome, 3, 0, 0},
	{enqueueBroken, 10, 0, 0},
}

// redisMishaps never overlap: the end of one needs the connection that a second one breaks.
var redisMishaps = []mishapKind{killRedis, hangRedis, fillRedis, refuseWrites, changeSecret, dropClients}

// soakPlan returns the mishaps of a soak of that length. A seed gives the same plan each time, but a
// different length changes it.
func soakPlan(seed uint64, length time.Duration) []mishap {
	r := rand.New(rand.NewPCG(seed, 0))
	weights := 0
	for _, k := range mishaps {
		weights += k.weight
	}
	var plan []mishap
	redisBusy := time.Duration(0)
	for at := 2 * time.Second; at < length; at += time.Duration(100+r.IntN(700)) * time.Millisecond {
		w, i := r.IntN(weights), 0
		for ; w >= mishaps[i].weight; i++ {
			w -= mishaps[i].weight
		}
		k := mishaps[i]
		m := mishap{At: at, Kind: k.kind, N: r.IntN(1 << 20)}
		m.For = k.least + time.Duration(r.Int64N(int64(k.most-k.least)+1))
		if redisMishap(k.kind) {
			if at < redisBusy {
				continue
			}
			redisBusy = at + m.For + 2*time.Second
		}
		plan = append(plan, m)
	}
	return plan
}

// badAnswers are a troubled provider's answers to every push. With the last ones the provider accepts
// the push and does not confirm it.
var badAnswers = []standin.Answer{
	{Status: http.StatusServiceUnavailable},
	{Status: http.StatusInternalServerError},
	{Status: http.StatusTooManyRequests, RetryAfter: time.Second},
	{Status: http.StatusServiceUnavailable, RetryAfter: time.Second},
	{Fault: standin.Page},
	{Fault: standin.GoAwayUnprocessed},
	{Fault: standin.Drain},
	{Delay: 800 * time.Millisecond},
	{Fault: standin.Close},
	{Fault: standin.GoAway},
	{Fault: standin.BlackHole},
}

// soakNotification returns the i-th notification of a seed, equal for each producer and repetition, and
// the delay of its not_before after the first enqueue.
func soakNotification(seed uint64, i int) (n *push.Notification, notBefore time.Duration) {
	r := rand.New(rand.NewPCG(seed, uint64(i)+1))
	n = &push.Notification{ID: fmt.Sprint("s-", i), App: "shop", User: fmt.Sprint("user-", r.IntN(soakUsers)), Title: "hello"}
	switch k := r.IntN(20); {
	case k < 3:
		n.Category = rare
		n.TTL = push.Duration(time.Duration(1+r.IntN(20)) * time.Second)
	case k < 8:
		n.Category = "orders"
	case k < 10:
		n.Category, n.Priority = security, push.Critical
	case k < 12:
		n.Priority = push.Bulk
	case k < 14:
		n.CollapseKey = fmt.Sprint("key-", r.IntN(2))
	case k < 15:
		n.TTL = push.Duration(time.Duration(500+r.IntN(4000)) * time.Millisecond)
	case k < 16:
		notBefore = time.Duration(r.IntN(5000)) * time.Millisecond
	case k < 18:
		makeNews(n, r)
		return n, 0
	}
	if n.Category == rare && r.IntN(3) == 0 {
		n.CollapseKey = rare
	}
	targets := 1
	if r.IntN(5) == 0 {
		targets = 2 + r.IntN(3)
	}
	for k := range targets {
		target := push.Target{Platform: push.FCM, Token: fmt.Sprintf("device-%d-%d", i, k)}
		if r.IntN(2) == 0 {
			target = push.Target{Platform: push.APNs, Token: fmt.Sprintf("%060x%04x", i, k)}
		}
		n.Targets = append(n.Targets, target)
	}
	return n, notBefore
}

// oddAnswers returns the provider's odd answers for the token of the i-th notification; nil for none.
// News has none, because its notifications share tokens.
func oddAnswers(seed uint64, i int, n *push.Notification, platform push.Platform) []standin.Answer {
	if n.Category == news {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, ^uint64(i)))
	switch k := r.IntN(100); {
	case k < 2 && platform == push.APNs:
		return []standin.Answer{{Status: http.StatusGone}}
	case k < 2:
		return []standin.Answer{{Status: http.StatusNotFound}}
	case k < 4:
		return []standin.Answer{{Status: http.StatusBadRequest}}
	case k < 6:
		return []standin.Answer{{Status: http.StatusServiceUnavailable}, {Status: http.StatusInternalServerError}}
	case k < 7:
		bad := standin.Answer{Status: http.StatusInternalServerError}
		return []standin.Answer{bad, bad, bad, bad, bad, bad, bad, bad}
	case k < 8:
		return []standin.Answer{{Fault: standin.Close}}
	}
	return nil
}
