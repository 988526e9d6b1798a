package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/suggest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// A Quota bounds a number that all processes count together. The zero value is invalid.
type Quota struct {
	// At most COUNT in a PERIOD, as `COUNT/PERIOD`.
	Rate throttle.Rate `yaml:"rate"`
	// Several rates at once, for `sliding_window` and `fixed_window`.
	Rates []throttle.Rate `yaml:"rates"`
	// How it is counted; `fixed_window` is for API tokens and devices. See docs/limiters.md.
	Algorithm meter.Algorithm `yaml:"algorithm" default:"token_bucket" oneof:"token_bucket leaky_bucket sliding_window fixed_window"`
	// The size of a bucket; 0 for the algorithm's own.
	Burst int `yaml:"burst" default:"0"`
	// The time in which an idle bucket reaches its rate; for FCM's quota only.
	Ramp time.Duration `yaml:"ramp" default:"0s"`
	// The parts of a sliding window; 0 for the algorithm's own.
	Cells int `yaml:"cells" default:"0"`
}

// Spec returns the quota as a meter takes it.
func (q Quota) Spec() meter.Spec {
	rates := q.Rates
	if q.Rate != (throttle.Rate{}) {
		rates = []throttle.Rate{q.Rate}
	}
	return meter.Spec{Algorithm: q.Algorithm, Rates: rates, Burst: q.Burst, Ramp: q.Ramp, Cells: q.Cells}
}

// At returns the quota with another rate. A bucket's size changes in proportion.
func (q Quota) At(rate throttle.Rate) Quota {
	if q.Burst > 0 && q.Rate.Count > 0 {
		q.Burst = max(1, int(float64(q.Burst)*float64(rate.Count)/float64(q.Rate.Count)))
	}
	q.Rate, q.Rates = rate, nil
	return q
}

// String writes q as a file does.
func (q Quota) String() string { return flow(shown(reflect.ValueOf(q), true)) }

// Words writes q for a person: "6000/1m, burst 100".
func (q Quota) Words() string {
	var parts []string
	for _, e := range shown(reflect.ValueOf(q), true).(Section) {
		switch text := strings.Trim(flow(e.Value), "[]"); e.Key {
		case "rate", "rates":
			parts = append(parts, text)
		default:
			parts = append(parts, e.Key+" "+text)
		}
	}
	return strings.Join(parts, ", ")
}

// check checks the quota at key.
func (q Quota) check(k *check, key string) { q.checkSpec(k, key, q.Spec()) }

// checkPromise checks a quota that all workers together never exceed.
func (q Quota) checkPromise(k *check, key string) { q.checkSpec(k, key, q.Spec().Promise()) }

// checkRamp checks that the quota at key has no ramp: only Google asks for a ramp.
func (q Quota) checkRamp(k *check, key string) {
	if q.Ramp != 0 {
		k.fault(join(key, "ramp"), "only FCM's quota has one")
	}
}

func (q Quota) checkSpec(k *check, key string, spec meter.Spec) {
	rates := "rate"
	switch several := len(q.Rates) > 0; {
	case several && q.Rate != (throttle.Rate{}):
		k.fault(join(key, "rates"), "excludes rate: remove one or the other")
		return
	case several:
		rates = "rates"
	case q.Rate == (throttle.Rate{}):
		k.fault(join(key, rates), "is missing: want COUNT/PERIOD, such as 600000/1m")
		return
	}
	if spec.Algorithm != "" && !slices.Contains(meter.Algorithms, spec.Algorithm) {
		return // checkTags reports it without its text
	}
	for _, f := range fielderrors.Of(spec.Validate()) {
		if f.Field == "rates" {
			f.Field = rates
		}
		k.fault(join(key, f.Field), f.Problem)
	}
}

// A NamedQuota belongs to apps, which share it.
type NamedQuota struct {
	Quota
	// The apps that may name it.
	Apps []string `yaml:"apps"`
}

// A Device bounds the pushes to one device, in windows.
type Device struct{ Quota }

// setDefaults implements defaulted.
func (d *Device) setDefaults() { d.Algorithm = meter.SlidingWindow }

func (d Device) check(k *check, key string) {
	if d.Algorithm != meter.SlidingWindow && d.Algorithm != meter.FixedWindow {
		k.fault(join(key, "algorithm"), "want sliding_window or fixed_window")
		return
	}
	d.Quota.check(k, key)
}

// An AppQuota is an app's own quota, or names a quota in limits.quotas.
type AppQuota struct {
	Name string // "" for the app's own quota
	Quota
}

// setName implements named.
func (q *AppQuota) setName(name string) {
	*q = AppQuota{Name: name}
	setDefaults(reflect.ValueOf(q).Elem())
}

// named is a section that a name may replace.
type named interface{ setName(string) }

// String writes q as a file does.
func (q AppQuota) String() string {
	if q.Name != "" {
		return q.Name
	}
	return q.Quota.String()
}

// Shared bounds all workers' pushes through an app's provider together.
type Shared struct {
	// All workers' pushes (FCM: of the Firebase project; browsers: to all push services); no bound by
	// default.
	Quota *AppQuota `yaml:"quota" reload:"numbers"`
	// The most pushes in flight of all workers together (FCM: for tokens and for FIDs separately;
	// browsers: for each push service separately); 0 for no bound.
	Concurrency int `yaml:"concurrency" default:"0" range:"0..1000000"`
}

func (s Shared) check(k *check, key string) {
	switch {
	case s.Quota == nil:
	case s.Quota.Name == "":
		s.Quota.checkPromise(k, join(key, "quota"))
	case len(shown(reflect.ValueOf(s.Quota.Quota), true).(Section)) > 0:
		k.fault(join(key, "quota"), "has both a name and keys: remove one or the other")
	}
}

// checkQuotas checks quotas and apps against each other.
func (c *Config) checkQuotas(k *check) {
	apps := slices.Sorted(maps.Keys(c.Apps))
	for name, q := range c.Limits.Quotas {
		at := join("limits.quotas", name, "apps")
		if len(q.Apps) == 0 {
			k.fault(at, "is missing: want a list of the apps that share it")
		}
		for i, app := range q.Apps {
			if _, known := c.Apps[app]; !known {
				k.fault(index(at, i), "is no app of apps"+suggest.Hint(app, apps))
			}
		}
	}
	metered := false
	for _, name := range apps {
		for _, p := range c.Apps[name].Providers() {
			if p.Quota == nil {
				continue
			}
			metered = metered || p.Project != nil
			if p.Quota.Name != "" {
				c.checkName(k, name, join("apps", name, string(p.Platform), "quota"), p.Quota.Name)
			}
		}
	}
	if metered {
		c.checkProjects(k, apps)
	}
}

// checkName checks that limits.quotas has the quota, and that the app may name it.
func (c *Config) checkName(k *check, app, key, name string) {
	q, known := c.Limits.Quotas[name]
	switch {
	case !known:
		k.fault(key, "is no name of limits.quotas: want one, or {rate: COUNT/PERIOD}"+suggest.Hint(name, slices.Collect(maps.Keys(c.Limits.Quotas))))
	case !slices.Contains(q.Apps, app):
		at := join("limits.quotas", name, "apps")
		k.fault(key, "belongs to others: the app is not in "+at+k.at(at))
	}
}

// UnnamedQuotas returns the quotas of limits.quotas that no app names, so that they bound nothing.
// The value is advice on how to make the quota count.
func (c *Config) UnnamedQuotas() map[string]string {
	unnamed := map[string]string{}
	for name, q := range c.Limits.Quotas {
		unnamed[name] = c.remedy(name, q)
	}
	for _, app := range c.Apps {
		for _, p := range app.Providers() {
			if p.Quota != nil {
				delete(unnamed, p.Quota.Name)
			}
		}
	}
	return unnamed
}

// remedy advises on how an app can name the quota: at its first provider that may have one,
// preferably a provider without its own quota.
func (c *Config) remedy(name string, q NamedQuota) string {
	var free, taken []string
	for _, app := range q.Apps {
		for _, p := range c.Apps[app].Providers() {
			together := []string{app}
			if p.Platform == push.FCM {
				together = c.ofProject(app)
			}
			if p.Platform != push.FCM && q.Ramp != 0 || slices.ContainsFunc(together, func(app string) bool { return !slices.Contains(q.Apps, app) }) {
				continue
			}
			keys := make([]string, len(together))
			for i, app := range together {
				keys[i] = join("apps", app, string(p.Platform), "quota") + ": " + name
			}
			if p.Quota == nil {
				free = append(free, strings.Join(keys, " and "))
			} else {
				taken = append(taken, strings.Join(keys, " and "))
			}
		}
	}
	if all := append(free, taken...); len(all) > 0 {
		return "no app names it; write " + all[0]
	}
	return "no app names it, and none of its apps has a provider that could"
}

// ofProject returns the apps that send through the app's Firebase project, including the app.
func (c *Config) ofProject(app string) []string {
	project := c.projectOf(app)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Apps)), func(name string) bool {
		return name != app && (project == "" || c.projectOf(name) != project)
	})
}

// projectOf returns the Firebase project of an app; "" without FCM, and if the credentials name no
// project, which the sender reports as an error.
func (c *Config) projectOf(app string) string {
	if c.Apps[app].FCM == nil {
		return ""
	}
	project, _ := c.Apps[app].FCM.Project()
	return project
}

// checkProjects checks that apps of one Firebase project have the same quota: it is
// the project's.
func (c *Config) checkProjects(k *check, apps []string) {
	first := map[string]string{}
	for _, name := range apps {
		project := c.projectOf(name)
		other, known := first[project]
		if project == "" {
			continue
		}
		if !known {
			first[project] = name
			continue
		}
		q, its := c.Apps[name].FCM.Quota, c.Apps[other].FCM.Quota
		if q == nil && its == nil || q != nil && its != nil && q.Name == its.Name && reflect.DeepEqual(q.Spec(), its.Spec()) {
			continue
		}
		at := [2]string{join("apps", name, "fcm", "quota"), join("apps", other, "fcm", "quota")}
		k.fault(at[0], "is not that of "+at[1]+k.at(at[1])+": they send through the same Firebase project, which has one quota")
	}
}
