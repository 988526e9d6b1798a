package config

import (
	"fmt"
	"time"

	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/push"
)

// App says how to send on behalf of one app: through at least one provider, or
// through stand-ins.
type App struct {
	APNs *APNs `yaml:"apns"`
	FCM  *FCM  `yaml:"fcm"`
	// Simulated sends to stand-ins of both providers inside the process, and so
	// to no device. It excludes APNs and FCM.
	Simulated bool `yaml:"simulated"`
	// DeadTokens says where tokens that no longer work are reported.
	DeadTokens Reports `yaml:"dead_tokens"`
	// Outcomes says where the ends of notifications are reported.
	Outcomes Reports `yaml:"outcomes"`
}

// APNs is an app's way to APNs.
type APNs struct {
	apns.Config
	Shared
}

// FCM is an app's way to FCM.
type FCM struct {
	fcm.Config
	Shared
}

func (a App) check(k *check, key string, w Worker) {
	switch {
	case a.Simulated && (a.APNs != nil || a.FCM != nil):
		k.fault(join(key, "simulated"), "excludes apns and fcm: remove one or the other")
	case !a.Simulated && a.APNs == nil && a.FCM == nil:
		k.fault(key, "has no provider: want apns, fcm, or simulated: true")
	}
	if a.DeadTokens.Webhook != nil {
		a.DeadTokens.Webhook.check(k, join(join(key, "dead_tokens"), "webhook"))
	}
	if a.Outcomes.Webhook != nil {
		at := join(join(key, "outcomes"), "webhook")
		a.Outcomes.Webhook.check(k, at)
		if w.Outcomes == 0 {
			k.fault(at, "needs worker.outcomes, how many events are kept, such as 100000")
		}
	}
	if a.APNs != nil {
		checkProvider(k, join(key, "apns"), a.APNs.Validate(), orDefault(a.APNs.Timeout, apns.DefaultTimeout), w)
		a.APNs.Shared.check(k, join(key, "apns"))
	}
	if a.FCM != nil {
		checkProvider(k, join(key, "fcm"), a.FCM.Validate(), orDefault(a.FCM.Timeout, fcm.DefaultTimeout), w)
		a.FCM.Shared.check(k, join(key, "fcm"))
	}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// checkProvider takes over a provider's own faults. A send that outlasts the shutdown would be cut off, and sent again.
func checkProvider(k *check, key string, err error, timeout time.Duration, w Worker) {
	k.found(key, err)
	if timeout >= w.ShutdownTimeout {
		k.fault(join(key, "timeout"), fmt.Sprintf("is %s; want less than worker.shutdown_timeout, %s", timeout, w.ShutdownTimeout))
	}
}

// Platforms are those that the app sends to.
func (a App) Platforms() []push.Platform {
	var platforms []push.Platform
	if a.APNs != nil || a.Simulated {
		platforms = append(platforms, push.APNs)
	}
	if a.FCM != nil || a.Simulated {
		platforms = append(platforms, push.FCM)
	}
	return platforms
}

// Shared returns what bounds all workers together, by platform.
func (a App) Shared() map[push.Platform]Shared {
	all := map[push.Platform]Shared{}
	if a.APNs != nil {
		all[push.APNs] = a.APNs.Shared
	}
	if a.FCM != nil {
		all[push.FCM] = a.FCM.Shared
	}
	return all
}

// providers names what the app sends through.
func (a App) providers() []string {
	var names []string
	if a.APNs != nil {
		names = append(names, "apns")
	}
	if a.FCM != nil {
		names = append(names, "fcm")
	}
	if a.Simulated {
		names = append(names, "simulated")
	}
	return names
}
