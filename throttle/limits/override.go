package limits

import (
	"encoding/json"
	"time"

	"github.com/pushpace/pushpace/internal/base/duration"
	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// An Override replaces a whole policy at its level: the general limits of an app, of a user, or of
// a user in an app; with a category, the category's limits at that level. An override of a quota
// has one rate. A mute has no policy: see Policies.Muted.
//
// The API, its client and the commands use the form of MarshalJSON.
type Override struct {
	Level
	Policy throttle.Policy `json:"-"` // its fields are on the top level of the JSON
	// All means that a mute also holds critical notifications and exempt categories.
	All bool `json:"all,omitempty"`
	// Until is when the override ends, in whole milliseconds; zero for never.
	Until time.Time `json:"-"`
	// By is the user that set the override, and At is when, on Redis's clock. Version is that of
	// the change in the log; 0 for an override that is not stored.
	By      string    `json:"by,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Version int64     `json:"-"`
}

// errNoUser rejects a change without a user name.
var errNoUser = throttle.Faults{{Field: "by", Problem: "is missing: the audit log says who changed a limit"}}

// Validate returns all errors of o as throttle.Faults, with the same rules as the configuration.
// horizon is limits.horizon. The fields are app, user, category, min_gap, rates, quiet_hours,
// exempt, until, by, quota, mute and all.
func (o *Override) Validate(horizon time.Duration) error {
	var all throttle.Faults
	if o.Level == (Level{Mute: o.Mute}) {
		all.Add("", "app, user and category are missing: want at least one of them")
	}
	for _, name := range append(o.names(), levelName{"by", &o.By}) {
		most := names.MaxBytes
		if name.value == &o.Quota {
			most = 8 * names.MaxBytes // a quota's key may contain an app's and a category's name, escaped
		}
		if problem := names.Fault(*name.value, most); problem != "" {
			all.Add(name.of, "%s", problem)
		}
	}
	if o.Category == throttle.General {
		all.Add("category", "%s is the name of the general limits: name no category, or change limits.default in the configuration", throttle.General)
	}
	if o.By == "" {
		all = append(all, errNoUser...)
	}
	if o.All && !o.Mute {
		all.Add("all", "is for a mute")
	}
	switch {
	case o.Mute:
		all = append(all, o.muteFaults()...)
	case o.Quota != "":
		all = append(all, o.quotaFaults()...)
	case o.Policy.Exempt && o.Category == "":
		all.Add("exempt", "is for a category, of all or of one user or app: give generous rates instead")
	case !o.Policy.Exempt && o.Policy.Unlimited() && (o.Category == "" || o.Policy.Quiet == nil):
		all.Add("min_gap", "is missing, as rates and quiet_hours are: an override replaces the whole policy; to have the one below it back, remove the override")
	}
	if o.Quota == "" && !o.Mute {
		all = append(all, fielderrors.Of(o.Policy.Validate(horizon))...)
	}
	if year := o.Until.UTC().Year(); !o.Until.IsZero() && (year < 2000 || year > 9999) {
		all.Add("until", "%s is no sensible instant", o.Until.Format(time.RFC3339))
	}
	return all.Err()
}

// quotaFaults returns the errors of a quota's override. It does not check whether the quota's
// algorithm supports the rate.
func (o *Override) quotaFaults() (all throttle.Faults) {
	switch {
	case o.Level != (Level{Quota: o.Quota}):
		all.Add("quota", "excludes app, user and category: a quota's rate applies to everyone who shares it")
	case o.Policy.MinGap != 0 || o.Policy.Exempt || o.Policy.Quiet != nil || len(o.Policy.Rates) != 1:
		all.Add("rates", "want one for a quota, and neither min_gap, quiet_hours nor exempt")
	default:
		if err := o.Policy.Rates[0].Validate(); err != nil {
			all.Add("rates", "%v", err)
		}
	}
	return all
}

// ended reports whether o has ended at now, in Unix ms.
func (o *Override) ended(now int64) bool { return !o.Until.IsZero() && o.Until.UnixMilli() <= now }

// A form is an Override in JSON, with the fields of its policy on the top level.
type form struct {
	Level
	policyForm
	Until *time.Time `json:"until,omitempty"` // the zero time is in the past
	plain
}

// plain is an Override without its methods.
type plain Override

// A policyForm is a Policy in JSON.
type policyForm struct {
	MinGap     gap             `json:"min_gap,omitzero"`
	Rates      []throttle.Rate `json:"rates,omitempty"`
	QuietHours quiet.Hours     `json:"quiet_hours,omitzero"`
	Exempt     bool            `json:"exempt,omitempty"`
}

func formOf(p throttle.Policy) policyForm {
	return policyForm{gap(p.MinGap), p.Rates, p.Quiet, p.Exempt}
}

func (f policyForm) policy() throttle.Policy {
	return throttle.Policy{MinGap: time.Duration(f.MinGap), Rates: f.Rates, Quiet: f.QuietHours, Exempt: f.Exempt}
}

// A gap is a duration with a readable text form.
type gap time.Duration

func (g gap) MarshalText() ([]byte, error) {
	return []byte(throttle.FormatPeriod(time.Duration(g))), nil
}

func (g *gap) UnmarshalText(text []byte) error {
	d, err := duration.Parse(string(text))
	*g = gap(d)
	return err
}

// MarshalJSON writes o as {"app":"shop","user":"u1","category":"c","min_gap":"1s",
// "rates":["10/1m"],"quiet_hours":["22:00-08:00"],"exempt":true,"until":"…","by":"…","at":"…"},
// without empty fields; a mute with "mute":true and perhaps "all":true.
func (o Override) MarshalJSON() ([]byte, error) {
	w := form{Level: o.Level, policyForm: formOf(o.Policy), plain: plain(o)}
	if !o.Until.IsZero() {
		w.Until = new(o.Until.UTC().Truncate(time.Millisecond))
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads the form of MarshalJSON and rejects unknown fields. It does not validate.
// Its error is a throttle.Faults with JSON pointers.
func (o *Override) UnmarshalJSON(text []byte) error {
	var w form
	if err := strictjson.Decode(text, &w); err != nil {
		return strictjson.Misfits(text, &w, err)
	}
	if w.Until != nil && w.Until.IsZero() {
		return fielderrors.New("/until", "has passed")
	}
	*o = w.override()
	return nil
}

func (w *form) override() Override {
	o := Override(w.plain)
	o.Level, o.Policy, o.Until = w.Level, w.policy(), time.Time{}
	if w.Until != nil {
		o.Until = w.Until.Truncate(time.Millisecond)
	}
	return o
}

// setting returns the stored form of o, without the level, By and At, which are stored
// separately.
func (o Override) setting() string {
	o.Level, o.By, o.At = Level{}, "", time.Time{}
	text, _ := json.Marshal(o) // strings and a valid time never fail
	return string(text)
}
