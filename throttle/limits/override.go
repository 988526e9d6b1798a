package limits

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/pushpace/pushpace/internal/base/duration"
	"github.com/pushpace/pushpace/internal/base/faults"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// MaxNameBytes bounds the names of an override's level and of its author. It equals
// push.MaxNameBytes.
const MaxNameBytes = 128

// An Override replaces a whole policy at its level: the general limits of an app, of a
// user, or of a user in an app; with a category, its own limits there. That of a quota
// has one rate. A mute has no policy: see Policies.Muted.
type Override struct {
	Level
	Policy throttle.Policy
	// All says of a mute that critical notifications and those of exempt categories do not
	// pass it either.
	All bool
	// Until is when it ends, in whole milliseconds; zero when it has no end.
	Until time.Time
	// By is who set it, and At when, on Redis's clock. Version is that of the change in
	// the log; 0 for what is not set.
	By      string
	At      time.Time
	Version int64
}

// errNobody refuses a change without a name.
var errNobody = throttle.Faults{{Field: "by", Problem: "is missing: the audit log says who changed a limit"}}

// Validate reports all that is wrong with o, as strictly as the configuration is
// read, as throttle.Faults; horizon is limits.horizon. The fields are app, user, category,
// min_gap, rates, quiet_hours, exempt, until, by, quota, mute and all.
func (o *Override) Validate(horizon time.Duration) error {
	var all throttle.Faults
	if o.Level == (Level{Mute: o.Mute}) {
		all.Add("", "app, user and category are missing: want at least one of them")
	}
	for _, name := range append(o.names(), levelName{"by", &o.By}) {
		most := MaxNameBytes
		if name.value == &o.Quota {
			most = 8 * MaxNameBytes // a quota's key may have the names of an app and a category, escaped
		}
		if problem := names.Fault(*name.value, most); problem != "" {
			all.Add(name.of, "%s", problem)
		}
	}
	if o.Category == throttle.General {
		all.Add("category", "%s is the name of the general limits: name no category, or change limits.default in the configuration", throttle.General)
	}
	if o.By == "" {
		all = append(all, errNobody...)
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
		all = append(all, faults.Of(o.Policy.Validate(horizon))...)
	}
	if year := o.Until.UTC().Year(); !o.Until.IsZero() && (year < 2000 || year > 9999) {
		all.Add("until", "%s is no sensible instant", o.Until.Format(time.RFC3339))
	}
	return all.Err()
}

// quotaFaults returns what is wrong with an override of a quota. internal/quotas checks
// what the quota's algorithm asks of its rate.
func (o *Override) quotaFaults() (all throttle.Faults) {
	switch {
	case o.Level != (Level{Quota: o.Quota}):
		all.Add("quota", "excludes app, user and category: it is of all that share it")
	case o.Policy.MinGap != 0 || o.Policy.Exempt || o.Policy.Quiet != nil || len(o.Policy.Rates) != 1:
		all.Add("rates", "want one for a quota, and neither min_gap, quiet_hours nor exempt")
	default:
		if err := o.Policy.Rates[0].Validate(); err != nil {
			all.Add("rates", "%v", err)
		}
	}
	return all
}

// ended reports whether o has ended at that instant, in Unix ms.
func (o *Override) ended(now int64) bool { return !o.Until.IsZero() && o.Until.UnixMilli() <= now }

// setting is an override as it is written in JSON, but for whom it is and who
// set it.
type setting struct {
	MinGap     string          `json:"min_gap,omitempty"`
	Rates      []throttle.Rate `json:"rates,omitempty"`
	QuietHours quiet.Hours     `json:"quiet_hours,omitzero"`
	Exempt     bool            `json:"exempt,omitempty"`
	All        bool            `json:"all,omitempty"`
	Until      time.Time       `json:"until,omitzero"`
}

type writtenOverride struct {
	Level
	setting
	By string    `json:"by,omitempty"`
	At time.Time `json:"at,omitzero"`
}

func (o *Override) setting() setting {
	s := setting{Rates: o.Policy.Rates, QuietHours: o.Policy.Quiet, Exempt: o.Policy.Exempt, All: o.All}
	if o.Policy.MinGap != 0 {
		s.MinGap = throttle.FormatPeriod(o.Policy.MinGap)
	}
	if !o.Until.IsZero() {
		s.Until = o.Until.UTC().Truncate(time.Millisecond)
	}
	return s
}

func (s setting) applyTo(o *Override) error {
	o.Policy, o.All, o.Until = throttle.Policy{Rates: s.Rates, Quiet: s.QuietHours, Exempt: s.Exempt}, s.All, s.Until.Truncate(time.Millisecond)
	if s.MinGap == "" {
		return nil
	}
	gap, err := duration.Parse(s.MinGap)
	if err != nil {
		return errors.New("min_gap is no duration such as 1s")
	}
	o.Policy.MinGap = gap
	return nil
}

// MarshalJSON writes o as {"app":"shop","user":"u1","category":"c","min_gap":"1s",
// "rates":["10/1m"],"quiet_hours":["22:00-08:00"],"exempt":true,"until":"…","by":"…","at":"…"},
// without what is not set; a mute with "mute":true and perhaps "all":true.
func (o Override) MarshalJSON() ([]byte, error) {
	return json.Marshal(writtenOverride{o.Level, o.setting(), o.By, o.At})
}

// UnmarshalJSON reads what MarshalJSON writes, and refuses every other field. It
// does not validate.
func (o *Override) UnmarshalJSON(text []byte) error {
	var w writtenOverride
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return err
	}
	*o = Override{Level: w.Level, By: w.By, At: w.At}
	return w.setting.applyTo(o)
}
