package config

import (
	"fmt"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/fcm/fcmconfig"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/push"
)

// App says how to send on behalf of one app: through at least one provider, or
// through stand-ins.
type App struct {
	APNs    *APNs    `yaml:"apns"`
	FCM     *FCM     `yaml:"fcm"`
	WebPush *WebPush `yaml:"webpush"`
	// Sends to stand-ins inside the process, and so to no device. It excludes the providers.
	Simulated bool `yaml:"simulated" default:"false"`
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
	fcmconfig.Config
	Shared
}

// WebPush is an app's way to browsers.
type WebPush struct {
	webpush.Config
	Shared
}

// setDefaults implements defaulted.
func (w *WebPush) setDefaults() { w.Hosts = push.WebPushHosts() }

func (a App) check(k *check, key string, w Worker) {
	switch some := len(a.Providers()) > 0; {
	case a.Simulated && some:
		k.fault(join(key, "simulated"), "excludes "+fielderrors.List(push.Platforms(), "and")+": remove one or the other")
	case !a.Simulated && !some:
		k.fault(key, "has no provider: want "+fielderrors.List(push.Platforms(), "or")+", or simulated: true")
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
	for _, p := range a.Providers() {
		p.check(k, join(key, string(p.Platform)), w)
	}
}

// check collects the provider's own faults. A push that outlasts the shutdown would be cut off, and sent again.
func (p *Provider) check(k *check, key string, w Worker) {
	k.found(key, p.Validate())
	if p.Timeout >= w.ShutdownTimeout {
		k.fault(join(key, "timeout"), fmt.Sprintf("is %s; want less than worker.shutdown_timeout, %s", p.Timeout, w.ShutdownTimeout))
	}
	p.Shared.check(k, key)
	if p.Quota != nil && p.Platform != push.FCM {
		p.Quota.checkRamp(k, join(key, "quota"))
	}
}
