package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/faults"
	"github.com/pushpace/pushpace/internal/base/near"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// A Quota is how much is allowed of what all processes count together. The zero value
// is not a valid one.
type Quota struct {
	// Rate is what is allowed; Rates are several at once, for the windows.
	Rate  throttle.Rate   `yaml:"rate"`
	Rates []throttle.Rate `yaml:"rates"`
	// Algorithm is how it is counted. meter.TokenBucket by default.
	Algorithm meter.Algorithm `yaml:"algorithm"`
	// Burst is how many a bucket holds; 0 for the algorithm's own.
	Burst int `yaml:"burst"`
	// Ramp is how long a bucket takes from silence to its rate; 0 for none. Only FCM's
	// quotas have one.
	Ramp time.Duration `yaml:"ramp"`
	// Cells is of how many parts a sliding window is; 0 for the algorithm's own.
	Cells int `yaml:"cells"`
}

// Spec returns the quota as a meter takes it.
func (q Quota) Spec() meter.Spec {
	rates := q.Rates
	if q.Rate != (throttle.Rate{}) {
		rates = []throttle.Rate{q.Rate}
	}
	return meter.Spec{Algorithm: q.Algorithm, Rates: rates, Burst: q.Burst, Ramp: q.Ramp, Cells: q.Cells}
}

// At returns the quota at another rate, in the place of its own. What a bucket holds
// stays the same part of the count.
func (q Quota) At(rate throttle.Rate) Quota {
	if q.Burst > 0 && q.Rate.Count > 0 {
		q.Burst = max(1, q.Burst*rate.Count/q.Rate.Count)
	}
	q.Rate, q.Rates = rate, nil
	return q
}

// String writes q as a file does.
func (q Quota) String() string {
	var parts []string
	v := reflect.ValueOf(q)
	for i := range v.NumField() {
		if field := v.Field(i); !field.IsZero() {
			parts = append(parts, tagOf(v.Type().Field(i))+": "+logged(field))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Words writes q for a person: "6000/1m, burst 100".
func (q Quota) Words() string {
	var parts []string
	v := reflect.ValueOf(q)
	for i := range v.NumField() {
		field := v.Field(i)
		switch name := tagOf(v.Type().Field(i)); {
		case field.IsZero():
		case name == "rate":
			parts = append(parts, q.Rate.String())
		case name == "rates":
			for _, r := range q.Rates {
				parts = append(parts, r.String())
			}
		default:
			parts = append(parts, name+" "+logged(field))
		}
	}
	return strings.Join(parts, ", ")
}

// check checks what stands at key.
func (q Quota) check(k *check, key string) { q.checkSpec(k, key, q.Spec()) }

// checkPromise checks what stands at key and is never exceeded by what all workers do.
func (q Quota) checkPromise(k *check, key string) { q.checkSpec(k, key, q.Spec().Promise()) }

// checkRamp checks that the quota at key has no ramp: of all providers only Google asks for one.
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
		k.fault(join(key, "algorithm"), fmt.Sprintf("want one of %s", meter.Algorithms)) // and is not shown
		return
	}
	for _, f := range faults.Of(spec.Validate()) {
		if f.Field == "rates" {
			f.Field = rates
		}
		k.fault(join(key, f.Field), f.Problem)
	}
}

// A NamedQuota belongs to apps, which share it.
type NamedQuota struct {
	Quota
	// Apps are those that may name it.
	Apps []string `yaml:"apps"`
}

// A Device is how much one device gets, in windows.
type Device struct{ Quota }

// SetDefaults has the windows slide.
func (d *Device) SetDefaults() { d.Algorithm = meter.SlidingWindow }

func (d Device) check(k *check, key string) {
	if d.Algorithm != meter.SlidingWindow && d.Algorithm != meter.FixedWindow {
		k.fault(join(key, "algorithm"), "want sliding_window or fixed_window")
		return
	}
	d.Quota.check(k, key)
}

// An AppQuota is one of an app's own, or names one of limits.quotas.
type AppQuota struct {
	Name string // "" for one of its own
	Quota
}

// setName implements named.
func (q *AppQuota) setName(name string) { *q = AppQuota{Name: name} }

// named is a section that may be a name instead.
type named interface{ setName(string) }

// String writes q as a file does.
func (q AppQuota) String() string {
	if q.Name != "" {
		return q.Name
	}
	return q.Quota.String()
}

// Shared bounds what all workers together do through an app's provider.
type Shared struct {
	// Quota is how much they send; nil for no bound. FCM's is its project's, which
	// apps of the same project share.
	Quota *AppQuota `yaml:"quota"`
	// Concurrency is how many pushes they have in flight; 0, the default, for no bound.
	Concurrency int `yaml:"concurrency"`
}

const maxConcurrency = 1_000_000

func (s Shared) check(k *check, key string) {
	if s.Concurrency != 0 {
		k.integer(join(key, "concurrency"), s.Concurrency, 1, maxConcurrency)
	}
	switch {
	case s.Quota == nil:
	case s.Quota.Name == "":
		s.Quota.checkPromise(k, join(key, "quota"))
	case !reflect.ValueOf(s.Quota.Quota).IsZero():
		k.fault(join(key, "quota"), "has both a name and keys: remove one or the other")
	}
}

// checkQuotas checks what quotas and apps say of each other.
func (c *Config) checkQuotas(k *check) {
	apps := slices.Sorted(maps.Keys(c.Apps))
	for name, q := range c.Limits.Quotas {
		at := join("limits.quotas", name, "apps")
		if len(q.Apps) == 0 {
			k.fault(at, "is missing: want a list of the apps that share it")
		}
		for i, app := range q.Apps {
			if _, known := c.Apps[app]; !known {
				k.fault(index(at, i), "is no app of apps"+near.Hint(app, apps))
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

// checkName checks that the app may name that one of limits.quotas.
func (c *Config) checkName(k *check, app, key, name string) {
	q, known := c.Limits.Quotas[name]
	switch {
	case !known:
		k.fault(key, "is no name of limits.quotas: want one, or {rate: COUNT/PERIOD}"+near.Hint(name, slices.Collect(maps.Keys(c.Limits.Quotas))))
	case !slices.Contains(q.Apps, app):
		at := join("limits.quotas", name, "apps")
		k.fault(key, "belongs to others: the app is not in "+at+k.at(at))
	}
}

// UnnamedQuotas returns those of limits.quotas that no app names, so that nothing counts
// them, each with the key that would have it count.
func (c *Config) UnnamedQuotas() map[string]string {
	unnamed := map[string]string{}
	for name, q := range c.Limits.Quotas {
		platforms := c.Apps[q.Apps[0]].Platforms() // any would do
		unnamed[name] = join("apps", q.Apps[0], string(platforms[len(platforms)-1]), "quota")
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

// checkProjects checks that apps of one Firebase project have the same quota, which is
// the project's.
func (c *Config) checkProjects(k *check, apps []string) {
	first := map[string]string{}
	for _, name := range apps {
		app := c.Apps[name]
		if app.FCM == nil {
			continue
		}
		project, err := app.FCM.Project()
		if err != nil || project == "" { // opening the sender returns the error
			continue
		}
		other, known := first[project]
		if !known {
			first[project] = name
			continue
		}
		q, its := app.FCM.Quota, c.Apps[other].FCM.Quota
		if q == nil && its == nil || q != nil && its != nil && q.Name == its.Name && reflect.DeepEqual(q.Spec(), its.Spec()) {
			continue
		}
		at := [2]string{join("apps", name, "fcm", "quota"), join("apps", other, "fcm", "quota")}
		k.fault(at[0], "is not that of "+at[1]+k.at(at[1])+": they send through the same Firebase project, which has one quota")
	}
}
