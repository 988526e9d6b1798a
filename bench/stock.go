package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/sideshow/apns2"
	"github.com/sideshow/apns2/token"

	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/throttle"
)

// stockHandlers is the number of handlers of the stock composition's only server.
const stockHandlers = 64

// stockPool has a connection for every handler and for the server's own commands.
const stockPool = stockHandlers + 8

// A window is the classic limiter with a gap and one rate: every attempt adds an entry to the
// user's set, and then reads the whole set.
type window struct {
	client redis.UniversalClient
	prefix string
	gap    time.Duration
	rate   throttle.Rate
}

func newWindow(client redis.UniversalClient, prefix string, p throttle.Policy) window {
	return window{client, prefix, p.MinGap, p.Rates[0]}
}

// check returns 0 if the user may receive a push now, and otherwise the time left. It then removes
// its entry; in the published limiter the entry stays, and a busy user never receives a push again.
func (w window) check(ctx context.Context, user, id string) (time.Duration, error) {
	key, now := w.prefix+user, time.Now().UnixMicro()
	pipe := w.client.TxPipeline()
	pipe.ZRemRangeByScore(ctx, key, "0", strconv.FormatInt(now-w.rate.Period.Microseconds(), 10))
	pipe.ZAdd(ctx, key, redis.Z{Score: float64(now), Member: id})
	set := pipe.ZRangeWithScores(ctx, key, 0, -1)
	pipe.PExpire(ctx, key, w.rate.Period)
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, err
	}
	var others []int64
	for _, z := range set.Val() {
		if z.Member != id {
			others = append(others, int64(z.Score))
		}
	}
	left := time.Duration(0)
	until := func(n int, period time.Duration) {
		if len(others) >= n && period > 0 {
			left = max(left, time.Duration(others[len(others)-n]-now)*time.Microsecond+period)
		}
	}
	until(1, w.gap)
	until(w.rate.Count, w.rate.Period)
	if left == 0 {
		return 0, nil
	}
	return left, w.client.ZRem(ctx, key, id).Err()
}

// A tooSoon error makes asynq retry the job when the time left is over, as asynq's documentation
// shows.
type tooSoon struct{ left time.Duration }

func (t *tooSoon) Error() string { return "too soon, by " + t.left.String() }

// newStockServer returns one asynq server that works off the queue.
func newStockServer(client redis.UniversalClient, queue string) *asynq.Server {
	return asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency:              stockHandlers,
		Queues:                   map[string]int{queue: 1},
		DelayedTaskCheckInterval: 200 * time.Millisecond,
		RetryDelayFunc: func(n int, err error, task *asynq.Task) time.Duration {
			var soon *tooSoon
			if errors.As(err, &soon) {
				return soon.left
			}
			return asynq.DefaultRetryDelayFunc(n, err, task)
		},
		IsFailure: func(err error) bool {
			var soon *tooSoon
			return !errors.As(err, &soon)
		},
		LogLevel: asynq.FatalLevel, // a lower level would log every job that is too soon
	})
}

// stockDial is apns2's own DialTLS, which newStockClient replaces.
var stockDial = apns2.DialTLS

// newStockClient returns apns2's client with a key, as in apns2's documentation, but with the
// stand-in's address and certificate.
func newStockClient(c apns.Config) (*apns2.Client, error) {
	key, err := token.AuthKeyFromFile(c.KeyFile)
	if err != nil {
		return nil, err
	}
	roots, err := readRoots(c.RootCAFile)
	if err != nil {
		return nil, err
	}
	apns2.DialTLS = func(network, address string, config *tls.Config) (net.Conn, error) {
		config = config.Clone()
		config.RootCAs = roots
		return stockDial(network, address, config)
	}
	client := apns2.NewTokenClient(&token.Token{AuthKey: key, KeyID: c.KeyID, TeamID: c.TeamID})
	client.Host = c.Endpoint
	return client, nil
}
