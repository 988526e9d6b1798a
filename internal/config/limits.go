package config

import (
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// Limits are the limits of each user. Each app has its own timeline of a user.
type Limits struct {
	// How far back a user's timeline reaches, and so the longest gap or period.
	Horizon time.Duration `yaml:"horizon" default:"24h" range:"1s..366d"`
	// While the limits' Redis is unreachable, `closed` waits and `open` sends unchecked.
	OnOutage throttle.OnOutage `yaml:"on_outage" default:"closed" oneof:"closed open"`
	// For a category that is not in `limits.categories`: `warn` warns the producer and logs once,
	// `allow` does neither, `refuse` refuses the notification.
	UnknownCategory limits.UnknownCategory `yaml:"unknown_category" default:"warn" oneof:"allow warn refuse" reload:"at once"`
	// Each user's general limits; none by default.
	Default throttle.Policy `yaml:"default" reload:"at once"`
	// A category's limits, besides the general ones.
	Categories map[string]Category `yaml:"categories" reload:"at once"`
	// A quota that apps share by its name in `apps.NAME.fcm.quota`, `apns.quota` or
	// `webpush.quota`.
	Quotas map[string]NamedQuota `yaml:"quotas" reload:"at once"`
	// Pushes to each device, such as `{rates: [240/1m, 5000/1h]}`; by `sliding_window` (the default
	// here) or `fixed_window`.
	Device *Device `yaml:"device" reload:"numbers"`
	// The IANA time zone of notifications without one, for `not_before_local` and quiet hours;
	// `quiet_hours` require it.
	TimeZone string `yaml:"time_zone"`
	// By how much later each user's quiet hours may end, different each day, so that not all end at
	// once; in whole seconds.
	QuietHoursSpread time.Duration `yaml:"quiet_hours_spread" default:"10m" range:"0s..2h"`
	// How many [slots](guarantees.md#order) a user's notifications of a category may hold. The
	// notifications of all categories may hold twice this number.
	MaxBooked int `yaml:"max_booked" default:"1000" range:"10..1000"`
	// A Redis for the timelines; the queue's by default.
	Redis *Redis `yaml:"redis"`
}

// A Category is a class of notifications.
type Category struct {
	// Policy limits each user.
	throttle.Policy
	// Notifications of an app in the category, to all its users; no bound by default.
	Throughput *Quota `yaml:"throughput" reload:"numbers"`
}

// General returns the policy of Default, with the settings that all quiet hours share.
func (l Limits) General() throttle.Policy {
	general := l.Default
	general.Night.Spread = l.QuietHoursSpread
	if l.TimeZone != "" {
		general.Night.Zone, _ = zone.Load(l.TimeZone) // Validate has refused an unknown zone
	}
	return general
}

// Quiet reports whether there are any quiet hours.
func (l Limits) Quiet() bool {
	quiet := len(l.Default.Quiet) > 0
	for _, c := range l.Categories {
		quiet = quiet || len(c.Quiet) > 0
	}
	return quiet
}

// Policies returns the categories' policies.
func (l Limits) Policies() map[string]throttle.Policy {
	policies := make(map[string]throttle.Policy, len(l.Categories))
	for name, c := range l.Categories {
		policies[name] = c.Policy
	}
	return policies
}

func (l Limits) check(k *check, key string) {
	switch _, err := zone.Load(l.TimeZone); {
	case l.TimeZone == "" && l.Quiet():
		k.fault(join(key, "time_zone"), "is missing: quiet_hours need the zone of users whose own is not known")
	case l.TimeZone != "" && err != nil:
		k.fault(join(key, "time_zone"), err.Error())
	}
	if l.QuietHoursSpread%time.Second != 0 {
		k.fault(join(key, "quiet_hours_spread"), "want whole seconds")
	}
	if l.Default.Exempt {
		k.fault(join(key, "default", "exempt"), "only a category is exempt: leave default out for no general limit")
	}
	checkPolicy(k, join(key, "default"), l.Default, l.Horizon)
	for name, c := range l.Categories {
		if name == throttle.General {
			k.fault(join(key, "categories", name), "is the name of the general limits: set default instead, or name the category otherwise")
		}
		checkPolicy(k, join(key, "categories", name), c.Policy, l.Horizon)
		if c.Throughput != nil {
			c.Throughput.checkPromise(k, join(key, "categories", name, "throughput"))
			c.Throughput.checkRamp(k, join(key, "categories", name, "throughput"))
		}
	}
	for name, q := range l.Quotas {
		q.checkPromise(k, join(key, "quotas", name))
	}
	if l.Device != nil {
		l.Device.check(k, join(key, "device"))
	}
	if l.Redis != nil {
		l.Redis.check(k, join(key, "redis"))
	}
}

// odd collects the warnings about the policies.
func (l Limits) odd(k *check, key string) {
	of := func(key string, p throttle.Policy) {
		for _, w := range throttle.Warnings(p) {
			k.fault(key, w)
		}
	}
	of(join(key, "default"), l.Default)
	if l.Default.Unlimited() && len(l.Categories) == 0 && len(l.Quotas) == 0 && l.Device == nil {
		k.fault(key, "there is none: every notification is sent at once")
	}
	for name, c := range l.Categories {
		of(join(key, "categories", name), c.Policy)
	}
}

func checkPolicy(k *check, key string, p throttle.Policy, horizon time.Duration) {
	k.found(key, p.Validate(horizon))
}
