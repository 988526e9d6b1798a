//go:build soak && unix

package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// atRisk records the pushes in flight before a trouble, and returns the current time. In flight are
// pushes that the stand-ins accepted but no record has. The times of later pushes are in the ledger.
func (s *soak) atRisk(ctx context.Context) (from time.Time) {
	const lately = 10 * time.Second // older pushes are recorded, or an earlier call has recorded them
	from = time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	records := store.NewRecords(s.Client, "", 0)
	var underWay []string
	for _, e := range append(s.APNs.Ledger().Entries(), s.FCM.Ledger().Entries()...) {
		if from.Sub(e.At) > lately {
			continue
		}
		target := s.target(e)
		record, _, err := records.Lookup(ctx, store.Ref{ID: e.Notification})
		if err != nil || target >= len(record.Outcomes) || record.Outcomes[target].Kind != providers.Delivered.String() {
			underWay = append(underWay, pushOf(e))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range underWay {
		s.underWay[key] = true
	}
	return from
}

// target returns the index of the push's target in its notification; -1 for none.
func (s *soak) target(e standin.Entry) int {
	return slices.IndexFunc(s.notification(e.Notification).Targets, func(t push.Target) bool { return t.Token == e.Token })
}

// pushOf identifies a push.
func pushOf(e standin.Entry) string { return e.Notification + " " + e.Token }

// cause starts the trouble, and returns a function that ends it, or nil.
func (s *soak) cause(t *testing.T, what mishap) (mend func()) {
	t.Helper()
	ctx := t.Context()
	worker := s.workers[what.N%len(s.workers)]
	signal := func(p *rig.Program, sig syscall.Signal) { _ = p.Cmd.Process.Signal(sig) } // the process may have ended
	config := func(name, value, usual string) (restore func()) {
		s.configure(t, name, value)
		return func() { s.configure(t, name, usual) }
	}
	switch what.Kind {
	case killWorker:
		from := s.atRisk(ctx)
		signal(worker, syscall.SIGKILL)
		s.note(from, time.Now(), what.Kind)
	case stopWorker:
		s.atRisk(ctx)
		signal(worker, syscall.SIGSTOP)
		return func() { signal(worker, syscall.SIGCONT) }
	case endWorker:
		signal(worker, syscall.SIGTERM)
	case killAPI:
		signal(s.api, syscall.SIGKILL)
	case killRedis:
		from := s.atRisk(ctx)
		s.Server.Kill(t)
		s.Server.Restart(t)
		s.note(from, time.Now(), what.Kind)
	case hangRedis:
		s.atRisk(ctx)
		s.Server.Pause(t)
		return func() { s.Server.Resume(t) }
	case fillRedis:
		s.atRisk(ctx)
		return config("maxmemory", "1000000", "0")
	case refuseWrites:
		s.atRisk(ctx)
		return config("min-replicas-to-write", "1", "0")
	case changeSecret:
		s.atRisk(ctx)
		restore := config("requirepass", otherSecret, "")
		_ = s.Client.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "no").Err() // all clients must authenticate again
		return restore
	case flushScripts:
		_ = s.Client.ScriptFlush(ctx).Err()
	case dropClients:
		from := s.atRisk(ctx)
		_ = s.Client.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "no").Err()
		s.note(from, time.Now(), what.Kind)
	case breakAPNs, breakFCM:
		return s.breakProvider(what)
	case expireAccess:
		s.FCM.ExpireTokens()
	case changeLimit, restoreLimit:
		s.changeLimit(ctx, what)
	case pauseSome:
		query := []string{"app=shop", "app=shop&platform=apns", "app=shop&platform=fcm", "category=orders", "category=" + rare}[what.N%5]
		s.call(http.MethodPut, "/v1/pauses?"+query, fmt.Sprintf(`{"reason":"soak","until":%q}`, time.Now().Add(what.For+2*time.Second).UTC().Format(time.RFC3339)))
		return func() { s.call(http.MethodDelete, "/v1/pauses?"+query, "") }
	case muteSome:
		return s.muteSome(ctx, what)
	case cancelSome:
		newest := int(s.next.Load())
		for k := range 5 {
			if i := newest - 1 - (what.N+k*97)%400; i >= 0 {
				s.call(http.MethodDelete, fmt.Sprintf("/v1/notifications/s-%d?digest=%t", i, what.N%2 == 0), "")
			}
		}
	case requeueSome:
		s.requeue()
	case enqueueBroken:
		s.enqueueHostile(ctx, t, what.N)
	}
	return nil
}

// otherSecret is Redis's password during changeSecret.
const otherSecret = "another"

// configure sets a Redis option, with whichever password Redis now requires.
func (s *soak) configure(t *testing.T, name, value string) {
	t.Helper()
	if !eventually.Within(20*time.Second, func() bool {
		return slices.ContainsFunc([]string{"", otherSecret}, func(password string) bool {
			o := s.Server.Options()
			o.Password = password
			client := redis.NewClient(o)
			defer client.Close()
			return client.ConfigSet(t.Context(), name, value).Err() == nil
		})
	}) {
		t.Errorf("CONFIG SET %s %q: Redis refuses it", name, value)
	}
}

func (s *soak) breakProvider(what mishap) (mend func()) {
	script := &s.APNs.Script
	if what.Kind == breakFCM {
		script = &s.FCM.Script
	}
	script.RespondAlways(badAnswers[what.N%len(badAnswers)])
	return script.Recover
}

func (s *soak) changeLimit(ctx context.Context, what mishap) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	overrides := limits.NewOverrides(s.Client, "", 0)
	override := limits.Override{Level: limits.Level{User: fmt.Sprint("user-", what.N/8%soakUsers)}, By: "soak"}
	if what.N%8 == 0 {
		override.User, override.Category = "", "orders"
	}
	if what.Kind == restoreLimit {
		_, _ = overrides.Unset(ctx, override.Level, "soak") // Redis may be away
		return
	}
	override.Policy = throttle.Policy{MinGap: []time.Duration{100, 300, 700, 1500}[what.N/8%4] * time.Millisecond}
	if what.N%3 == 0 {
		override.Until = time.Now().Add(time.Duration(500+what.N%3000) * time.Millisecond)
	}
	_ = overrides.Set(ctx, override)
}

// muteSome mutes a user of news, or the category news. The mute lasts longer if Redis is away at
// its end.
func (s *soak) muteSome(ctx context.Context, what mishap) (unmute func()) {
	overrides := limits.NewOverrides(s.Client, "", 0)
	of := limits.Level{User: fmt.Sprint("user-", what.N/2%soakReaders), Mute: true}
	if what.N%2 == 0 {
		of.User, of.Category = "", news
	}
	inTime := func(f func(context.Context)) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		f(ctx)
	}
	inTime(func(ctx context.Context) {
		_ = overrides.Set(ctx, limits.Override{Level: of, By: "soak", Until: time.Now().Add(what.For + 2*time.Second)})
	})
	return func() { inTime(func(ctx context.Context) { _, _ = overrides.Unset(ctx, of, "soak") }) }
}

// call makes a request to the API; status is 0 while the API is away.
func (s *soak) call(method, path, body string) (status int, answer []byte) {
	request, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.http.Do(request)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, nil
	}
	return response.StatusCode, answer
}

// requeue requeues dead letters, also malformed ones.
func (s *soak) requeue() {
	_, answer := s.call(http.MethodGet, "/v1/dead-letters?limit=10", "")
	var page struct {
		Letters []store.Letter `json:"dead_letters"`
	}
	if json.Unmarshal(answer, &page) != nil {
		return
	}
	for _, letter := range page.Letters {
		s.call(http.MethodPost, "/v1/dead-letters/"+letter.ID+"/requeue", "")
	}
}

// enqueueHostile writes a job or a timeline that no producer or limiter writes.
func (s *soak) enqueueHostile(ctx context.Context, t *testing.T, n int) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	s.mu.Lock()
	s.hostile++
	id := fmt.Sprint("hostile-", s.hostile)
	s.mu.Unlock()
	at := shard.NewShards(s.Client, "", 1)[0]
	queue := at.Queue(push.Default.Queue())
	put := func(payload string, options ...asynq.Option) {
		options = append(options, asynq.TaskID(id), asynq.Queue(queue), asynq.MaxRetry(store.MaxRetry))
		_, _ = asynq.NewClientFromRedisClient(s.Client).EnqueueContext(ctx, asynq.NewTask(store.TaskType, []byte(payload)), options...)
	}
	switch n % 5 {
	case 0:
		put(`{"notification":{"id":"` + id)
	case 1:
		put(strings.Repeat("[", 5000))
	case 2: // a task of a foreign type
		s.Client.Set(ctx, shard.QueueKey(queue, "t:"+id), "x", time.Hour)
		s.Client.LPush(ctx, shard.QueueKey(queue, "pending"), id)
	case 3: // an ID without a task
		s.Client.LPush(ctx, shard.QueueKey(queue, "pending"), id)
	case 4: // a timeline of a wrong type, and a notification to its user
		s.Client.Set(ctx, "pushpace:{shop/"+id+"}:sent", "x", 0)
		s.mu.Lock()
		s.broken = append(s.broken, "pushpace:{shop/"+id+"}:sent")
		s.mu.Unlock()
		n := &push.Notification{ID: id, App: "shop", User: id, Title: "hello", Targets: []push.Target{{Platform: push.FCM, Token: id}}}
		s.beside.Go(func() { s.hand(t, n, s.enqueue) }) // Redis may execute the command even after its caller has given up
	}
}
