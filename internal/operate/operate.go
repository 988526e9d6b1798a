// Package operate has every look and action of an operator, and what a producer asks
// for, each once. It takes who asks and what is asked for, decides whether they may, does
// it, and returns plain values, whose JSON is what the HTTP API answers.
package operate

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// Options say what a Service works with. All are required unless they say otherwise.
type Options struct {
	Producer Producer
	Records  *store.Records
	Control  *control.Control
	Inspect  *inspect.Inspector
	// Limits are the configured ones, and Overrides those above them.
	Limits    *limits.Policies
	Overrides *limits.Overrides
	// Follows says that Limits are kept in step with Overrides. Else these are read before
	// a look that needs them.
	Follows bool
	// Preview tells what an override would do.
	Preview *Previewer
	// Meter counts what the quotas are of. Optional where there are none.
	Meter meter.Meter
	// Quotas returns what all workers together may do, as it is configured; nil for
	// nothing. Beside an error it returns those that are known.
	Quotas func() (Quotas, error)
	// Apps are those of the configuration. Optional: without them there are no
	// timelines, and an app of any name is taken.
	Apps Apps
	// Queue is the queue's Redis, not shared by a pipeline, which has the audit log;
	// nil for none. LimitsRedis is that of the limits; nil where they have none of their
	// own.
	Queue, LimitsRedis redis.UniversalClient
	// Fresh is for how long a value that many look at is kept, so that they cost Redis as
	// much as one; zero for not at all. Within is how long reading it may take; zero for as
	// long as it takes.
	Fresh, Within time.Duration
	Log           *slog.Logger // nil for slog.Default
}

// A Producer hands over: see push.Producer.
type Producer interface {
	Enqueue(ctx context.Context, n *push.Notification) (push.Receipt, error)
	EnqueueAll(ctx context.Context, notifications []*push.Notification) []push.Result
	RequeueOf(ctx context.Context, ref push.Ref) error
}

// A Service is what operators work with. It is safe for concurrent use; Close it.
type Service struct {
	with     Options
	repeats  repeats.Log   // what clients can have it say again and again
	auditLog *auditlog.Log // what operators did; nil without Options.Queue

	overview      shared[*Overview]
	pauses        shared[[]pause.Pause]
	audit         shared[*inspect.Audit]
	quotas        shared[[]QuotaStatus]
	users         *sharedBy[userKey, *User]
	notifications *sharedBy[push.Ref, *Notification]
	throughput    *sharedBy[Range, *Throughput]
}

// New returns a service.
func New(o Options) *Service {
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Quotas == nil {
		o.Quotas = func() (Quotas, error) { return nil, nil }
	}
	s := &Service{with: o}
	if o.Queue != nil {
		s.auditLog = auditlog.New(o.Queue, o.Records.Prefix())
	}
	usual := times{o.Fresh, o.Within}
	often := times{max(o.Fresh, overviewFresh), o.Within}
	s.overview = shared[*Overview]{times: often, read: s.readOverview}
	s.throughput = newSharedBy(often, s.readThroughput)
	s.pauses = shared[[]pause.Pause]{times: usual, read: o.Inspect.Pauses}
	s.audit = shared[*inspect.Audit]{times: times{o.Fresh, min(o.Within, auditWithin)}, read: o.Inspect.Audit}
	s.quotas = shared[[]QuotaStatus]{times: usual, read: s.readQuotas}
	s.users = newSharedBy(usual, s.readUser)
	s.notifications = newSharedBy(usual, s.readNotification)
	return s
}

const (
	// overviewFresh is for how long an overview, and a throughput, is told again at least: it
	// looks at much.
	overviewFresh = time.Second
	// auditWithin is for how long at most an audit that is told again is repeated where it
	// is not balanced.
	auditWithin = 300 * time.Millisecond
)

// Close tells the log what it has not been told of.
func (s *Service) Close() { s.repeats.Close() }

// An Operator is somebody who asks.
type Operator struct {
	s      *Service
	who    Principal
	remote string
}

// As returns the service for a bearer, who asks from that address: it is for the log, ""
// for none.
func (s *Service) As(who Principal, remote string) *Operator { return &Operator{s, who, remote} }

// An OthersError refuses what is not of the bearer's apps alone. It is the same whether
// it is there or not.
type OthersError struct{ Apps []string }

// Error implements error.
func (e *OthersError) Error() string {
	of := "the app "
	if len(e.Apps) > 1 {
		of = "the apps "
	}
	return "the token is for " + of + strings.Join(e.Apps, ", ") + " alone, and this is another's or everybody's"
}
