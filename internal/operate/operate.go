// Package operate implements every query and action of operators, and the requests of producers,
// each once. Start with Service.As, which returns the Operator of a principal.
//
// Every method of an Operator first checks that the principal's role allows the Action, and that
// the items belong to the principal's apps: scope.go has the rules. It returns plain values; the
// HTTP API answers with their JSON.
package operate

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// Options are a Service's dependencies. All are required unless they say otherwise.
type Options struct {
	Producer Producer
	Records  *store.Records
	Control  *control.Control
	Inspect  *inspect.Inspector
	// Limits are the configured policies, which Overrides replace.
	Limits    *limits.Policies
	Overrides *limits.Overrides
	// Follows means that Limits follow Overrides by themselves. Otherwise queries refresh Limits
	// first.
	Follows bool
	// Preview computes the effects of overrides.
	Preview *Previewer
	// Meter counts the quotas' units. Optional if there are no quotas.
	Meter meter.Meter
	// Quotas returns the configured quotas; nil without any. With an error it returns the known
	// quotas.
	Quotas func() (Quotas, error)
	// Apps are the configured apps. Optional: without them there are no timelines, and any app is
	// accepted.
	Apps Apps
	// Queue is the queue's Redis, not shared by a pipeline, and has the audit log; nil for no audit
	// log. LimitsRedis is the limits' own Redis; nil if they have none.
	Queue, LimitsRedis redis.UniversalClient
	// Fresh is how long a shared value is kept, so that many callers cost Redis no more than one
	// caller; zero keeps no value. Within bounds a read of a shared value; zero means unbounded.
	Fresh, Within time.Duration
	Log           *slog.Logger // nil for slog.Default
}

// A Producer enqueues: see push.Producer.
type Producer interface {
	Enqueue(ctx context.Context, n *push.Notification) (push.Receipt, error)
	EnqueueAll(ctx context.Context, notifications []*push.Notification) []push.Result
	RequeueOf(ctx context.Context, ref push.Ref) error
}

// A Service answers operators and producers. It is safe for concurrent use; Close it.
type Service struct {
	with     Options
	repeats  logdedup.Log  // log lines that clients can repeat
	auditLog *auditlog.Log // nil without Options.Queue

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
	// overviewFresh is the shortest time for which an overview or a throughput is kept: they
	// read much.
	overviewFresh = time.Second
	// auditWithin bounds how long an unbalanced audit is repeated if Fresh and Within are set.
	auditWithin = 300 * time.Millisecond
)

// Close logs the repeated lines counted so far.
func (s *Service) Close() { s.repeats.Close() }

// An Operator makes the requests of one principal.
type Operator struct {
	s         *Service
	principal Principal
	remote    string
}

// As returns the operator of a principal. remote is the principal's address for the log, or "".
func (s *Service) As(p Principal, remote string) *Operator { return &Operator{s, p, remote} }

// An OthersError refuses an item that belongs to another app, or to all apps, and not only to the
// principal's apps. The error is the same whether or not the item exists.
type OthersError struct{ Apps []string }

// Error implements error.
func (e *OthersError) Error() string {
	of := "the app "
	if len(e.Apps) > 1 {
		of = "the apps "
	}
	return "the token is limited to " + of + strings.Join(e.Apps, ", ") + ", and this concerns other apps"
}
