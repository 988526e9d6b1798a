//go:build soak && unix

package soak

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// The number of commands on keys without a shard or a user, and of messages between masters, depends on
// the number of workers and on time, not on the number of notifications: otherwise one master would
// carry the load of all.
func TestClusterSharesLoad(t *testing.T) {
	t.Parallel()
	const workers = 2
	const keysEach, published = 30, 5 // most commands of a worker, and most messages of all, a second
	r := newClusterRig(t, throttle.Policy{MinGap: 30 * time.Millisecond, Rates: []throttle.Rate{{Count: 200, Period: 10 * time.Second}}})
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer hook.Close()
	for _, reports := range []string{"OUTCOMES", "DEAD_TOKENS"} {
		r.Env = append(r.Env, "PUSHPACE_APPS__SHOP__"+reports+"__WEBHOOK__URL="+hook.URL, "PUSHPACE_APPS__SHOP__"+reports+"__WEBHOOK__SECRET="+"whsec_"+strings.Repeat("secret23", 4))
	}
	r.Env = append(r.Env, "PUSHPACE_WORKER__OUTCOMES=100000", "PUSHPACE_LIMITS__CATEGORIES__RARE__MIN_GAP=1h")
	r.work(t, workers)
	sent := 0
	// pace enqueues n notifications, at most rate a second
	pace := func(n, rate int) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for began, of := time.Now(), 0; of < n; {
			if due := min(n, int(time.Since(began).Seconds()*float64(rate))); due > of {
				var batch []*push.Notification
				for ; of < due; of++ {
					batch = append(batch, r.mixed(sent))
					sent++
				}
				r.enqueueAll(t, batch)
				for _, n := range batch {
					if n.Category == "cancelled" {
						r.Cancel(t, r.producer, n.ID)
					}
				}
			}
			<-tick.C
		}
	}
	pace(100, 100) // afterwards scripts are loaded, and all clients connected
	delivered := func(n int) {
		r.workers[0].Until(t, "they are sent", func() bool { return r.Delivered() >= n*9/10 })
	}
	delivered(sent)

	tr := newTraffic(t, r)
	var perSecond []float64 // commands a second, including the commands of scripts
	rate, seconds := size(500, 100), size(5, 3)
	const flatOut = 1 << 20
	for _, load := range []struct{ n, rate int }{{seconds * rate, rate}, {seconds * 2 * rate, 2 * rate}, {size(20_000, 1000), flatOut}} {
		tr.begin(t)
		pace(load.n, load.rate)
		delivered(sent)
		took := tr.end(t)
		each := float64(sum(tr.common)) / took.Seconds() / workers
		perSecond = append(perSecond, float64(sum(tr.common)+sum(tr.inside))/took.Seconds())
		t.Logf("%d in %s: %.1f commands a second and worker on what is no shard's and no user's, %d words to idle workers, %d messages between masters",
			load.n, took.Round(time.Millisecond), each, tr.words, tr.published)
		if each > keysEach {
			t.Errorf("commands on what is no shard's and no user's: %v, in scripts %v", tr.common, tr.inside)
		}
		if float64(tr.published) > published*took.Seconds() {
			t.Errorf("%d messages between masters", tr.published)
		}
		if tr.words == 0 && load.rate < flatOut {
			t.Error("no worker was idle, and none was given a word")
		}
	}
	// one command for each notification would add rate commands a second
	if more := perSecond[1] - perSecond[0]; more > float64(rate)/4 {
		t.Errorf("%.1f more commands a second at %d a second than at %d: %v, in scripts %v", more, 2*rate, rate, tr.common, tr.inside)
	}
	r.Stop(t, r.workers...)
	ends, err := r.records.Counts(t.Context())
	rig.Must(t, err)
	for _, state := range []push.State{push.Delivered, push.Undeliverable, push.Superseded, push.Cancelled} {
		if ends.Ended[state] == 0 {
			t.Errorf("none has ended as %s: %+v", state, ends)
		}
	}
	if ends.Deferred == 0 {
		t.Errorf("none was put off: %+v", ends)
	}
}

// enqueueAll enqueues the notifications in one call.
func (r *clusterRig) enqueueAll(t *testing.T, all []*push.Notification) {
	t.Helper()
	for _, result := range r.producer.EnqueueAll(t.Context(), all) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
}

// mixed returns the i-th notification of a load with every kind of notification; nothing is paused.
func (r *clusterRig) mixed(i int) *push.Notification {
	n := &push.Notification{
		ID: fmt.Sprint("n-", i), App: "shop", User: fmt.Sprint("user-", i%60), Title: "hello",
		Targets: []push.Target{{Platform: push.FCM, Token: fmt.Sprint("device-", i)}},
	}
	apple := push.Target{Platform: push.APNs, Token: fmt.Sprintf("%064x", i)}
	switch i % 20 {
	case 0, 1, 2, 3, 4:
		n.Targets = append(n.Targets, apple)
	case 5, 6:
		n.CollapseKey, n.User = "latest", "user-7" // more notifications than the limit allows
	case 7:
		n.NotBefore = time.Now().Add(time.Second)
	case 8:
		n.NotBefore, n.Category = time.Now().Add(time.Hour), "cancelled"
	case 9:
		n.Targets = []push.Target{apple}
		r.APNs.Respond(apple.Token, standin.Answer{Status: http.StatusGone})
	case 10:
		n.Targets = []push.Target{apple}
		r.APNs.Respond(apple.Token, standin.Answer{Status: http.StatusTooManyRequests, RetryAfter: time.Second})
	case 11:
		n.Priority = push.Critical
	case 12:
		n.Priority = push.Bulk
	case 16:
		n.Category = "rare" // a user's second one waits, on a machine of any speed
	case 13, 14, 15:
		n.User = "user-1" // with a burst now and then
	}
	return n
}

// A traffic is the masters' commands and messages in an interval.
type traffic struct {
	rig    *clusterRig
	shards map[string]bool // hash tags of the shards

	ends      []func()
	began     time.Time
	before    int // messages between masters
	published int

	mu     sync.Mutex
	words  int            // wake-ups of idle workers
	common map[string]int // commands on keys of no shard and no user, by command and key
	inside map[string]int // commands of scripts on such keys, by command and key
}

func newTraffic(t *testing.T, r *clusterRig) *traffic {
	tr := &traffic{rig: r, shards: map[string]bool{}}
	all, err := r.records.All(t.Context())
	rig.Must(t, err)
	for _, s := range all {
		tr.shards[tagOf(s.Key("counts"))] = true
		for _, queue := range s.Queues() {
			tr.shards[queue] = true
		}
	}
	return tr
}

// tagOf returns the hash tag of a key; "" for none.
func tagOf(key string) string {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	return tag
}

func (tr *traffic) begin(t *testing.T) {
	t.Helper()
	tr.words, tr.common, tr.inside, tr.ends, tr.before = 0, map[string]int{}, map[string]int{}, nil, tr.bus(t)
	for _, node := range tr.rig.nodes {
		tr.ends = append(tr.ends, monitor(t, node, tr.note))
	}
	tr.began = time.Now()
}

// end ends the interval, and returns its length.
func (tr *traffic) end(t *testing.T) time.Duration {
	t.Helper()
	took := time.Since(tr.began)
	for _, end := range tr.ends {
		end()
	}
	tr.published = tr.bus(t) - tr.before
	return took
}

// sum returns the number of commands.
func sum(commands map[string]int) (n int) {
	for _, some := range commands {
		n += some
	}
	return n
}

// bus returns how many published messages the masters have sent to each other.
func (tr *traffic) bus(t *testing.T) (sum int) {
	t.Helper()
	for _, node := range tr.rig.nodes {
		info, err := node.Client(t).ClusterInfo(t.Context()).Result()
		rig.Must(t, err)
		for _, found := range regexp.MustCompile(`cluster_stats_messages_publish(?:shard)?_sent:(\d+)`).FindAllStringSubmatch(info, -1) {
			sum += int(number(found[1]))
		}
	}
	return sum
}

// keyless are commands without a key.
var keyless = strings.Fields("auth client cluster command echo exec hello info monitor multi ping readonly script select time unwatch")

// note counts a command of MONITOR: "+INSTANT [DB CLIENT] "NAME" "ARGUMENT" …".
func (tr *traffic) note(line string) {
	from, text, _ := strings.Cut(line, "] ")
	args := quoted(text, 64)
	if len(args) == 0 {
		return
	}
	name := strings.ToLower(args[0])
	if args = args[1:]; strings.HasPrefix(name, "eval") && len(args) > 2 {
		args = args[2:]
	}
	if slices.Contains(keyless, name) {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	key := strings.Join(args[:min(len(args), 2)], " ")
	for _, arg := range args {
		if tag := tagOf(arg); tag != "" {
			if tr.shards[tag] || strings.HasPrefix(tag, shard.UserTag("shop", "")) {
				if name == "spublish" {
					tr.words++
				}
				return
			}
			key = "{" + tag + "}"
			break
		}
	}
	if strings.HasSuffix(from, " lua") {
		tr.inside[name+" "+key]++
	} else {
		tr.common[name+" "+key]++
	}
}

// quoted returns the first quoted strings of a text of quoted strings, at most most.
func quoted(text string, most int) (all []string) {
	for len(all) < most {
		prefix, err := strconv.QuotedPrefix(text)
		if err != nil {
			break
		}
		value, err := strconv.Unquote(prefix)
		if err != nil {
			break
		}
		all = append(all, value)
		text = strings.TrimPrefix(text[len(prefix):], " ")
	}
	return all
}
