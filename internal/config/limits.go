package config

import (
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// Limits are what a user may receive. Every app's users have them, each app a
// timeline of its own.
type Limits struct {
	// Horizon is how far back a timeline reaches, and so the longest gap or
	// period. 24 h by default, 1 s to 366 days.
	Horizon time.Duration `yaml:"horizon"`
	// OnOutage is what happens while the limits' Redis is away. Closed by default.
	OnOutage throttle.OnOutage `yaml:"on_outage"`
	// UnknownCategory is what becomes of a notification whose category is not among
	// Categories. Warn by default.
	UnknownCategory limits.UnknownCategory `yaml:"unknown_category"`
	// Default is the general policy. The zero value limits nothing.
	Default throttle.Policy `yaml:"default"`
	// Categories have policies of their own, besides the general one.
	Categories map[string]Category `yaml:"categories"`
	// Quotas are those that apps name.
	Quotas map[string]NamedQuota `yaml:"quotas"`
	// Device is how many pushes each device gets, of all users; nil for any number.
	Device *Device `yaml:"device"`
	// TimeZone is the IANA name of the zone of users whose notifications name none, where
	// they need one. None by default; quiet hours require it.
	TimeZone string `yaml:"time_zone"`
	// QuietHoursSpread is by how much later each user's quiet hours may end, so that not all
	// end at once. 10 min by default, 0 to 2 h, in whole seconds.
	QuietHoursSpread time.Duration `yaml:"quiet_hours_spread"`
	// MaxBooked is how many of a user's notifications of one category may hold slots, and
	// half of how many of all. One more that is new is rejected. 1,000 by default, 10 to 1,000.
	MaxBooked int `yaml:"max_booked"`
	// Redis holds the timelines; nil for the same Redis as everything else.
	Redis *Redis `yaml:"redis"`
}

// A Category is a class of notifications.
type Category struct {
	// Policy limits each user.
	throttle.Policy
	// Throughput is how many of an app's go out to all its users; nil for no bound.
	Throughput *Quota `yaml:"throughput"`
}

// General is the policy of Default, with what all quiet hours have in common.
func (l Limits) General() throttle.Policy {
	general := l.Default
	general.Night.Spread = l.QuietHoursSpread
	if l.TimeZone != "" {
		general.Night.Zone, _ = zone.Load(l.TimeZone) // it was checked
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

// Policies are those of the categories.
func (l Limits) Policies() map[string]throttle.Policy {
	policies := make(map[string]throttle.Policy, len(l.Categories))
	for name, c := range l.Categories {
		policies[name] = c.Policy
	}
	return policies
}

// SetDefaults sets every field to its default.
func (l *Limits) SetDefaults() {
	*l = Limits{Horizon: 24 * time.Hour, OnOutage: throttle.Closed, UnknownCategory: limits.WarnUnknown, QuietHoursSpread: 10 * time.Minute, MaxBooked: throttle.MaxEntries}
}

func (l Limits) check(k *check, key string) {
	k.duration(join(key, "horizon"), l.Horizon, time.Second, 366*24*time.Hour)
	if l.OnOutage != throttle.Closed && l.OnOutage != throttle.Open {
		k.fault(join(key, "on_outage"), "want closed or open")
	}
	switch l.UnknownCategory {
	case limits.AllowUnknown, limits.WarnUnknown, limits.RefuseUnknown:
	default:
		k.fault(join(key, "unknown_category"), "want allow, warn or refuse")
	}
	switch _, err := zone.Load(l.TimeZone); {
	case l.TimeZone == "" && l.Quiet():
		k.fault(join(key, "time_zone"), "is missing: quiet_hours need the zone of users whose own is not known")
	case l.TimeZone != "" && err != nil:
		k.fault(join(key, "time_zone"), err.Error())
	}
	k.duration(join(key, "quiet_hours_spread"), l.QuietHoursSpread, 0, quiet.MaxSpread)
	if l.QuietHoursSpread%time.Second != 0 {
		k.fault(join(key, "quiet_hours_spread"), "want whole seconds")
	}
	k.integer(join(key, "max_booked"), l.MaxBooked, 10, throttle.MaxEntries)
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

// odd collects what of the policies is hardly meant.
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

// LogValue describes l for a log.
func (l Limits) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Duration("horizon", l.Horizon),
		slog.String("on_outage", string(l.OnOutage)),
		slog.Int("max_booked", l.MaxBooked),
		slog.String("time_zone", l.TimeZone),
		slog.Duration("quiet_hours_spread", l.QuietHoursSpread),
		slog.Int("categories", len(l.Categories)),
		slog.String("unknown_category", string(l.UnknownCategory)),
	}
	if l.Redis != nil {
		attrs = append(attrs, slog.Any("redis", l.Redis.LogValue()))
	}
	return slog.GroupValue(attrs...)
}
