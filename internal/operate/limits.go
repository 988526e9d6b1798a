package operate

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// An OverridePage is a part of the overrides and mutes.
type OverridePage struct {
	Overrides []limits.Override `json:"overrides"`
	// Next is the cursor of the next page; "" after the last page.
	Next string `json:"next,omitempty"`
}

// overrideReads bounds the reads of overrides for a page.
const overrideReads = 10

// Overrides returns a page of overrides and mutes from the cursor on, with the app, user and
// category of the level; "" matches any. most is their approximate number. A page may be short or
// empty although there are more overrides: Next then is not "".
func (o *Operator) Overrides(ctx context.Context, of limits.Level, cursor string, most int) (*OverridePage, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	if err := o.MayNarrow(of.App); err != nil {
		return nil, err
	}
	known, _ := o.s.with.Quotas() // an unknown quota has no known app
	page := &OverridePage{Overrides: []limits.Override{}, Next: cursor}
	for range overrideReads {
		some, next, err := o.s.with.Overrides.ListFrom(ctx, page.Next, most)
		if err != nil {
			return nil, err
		}
		for _, r := range some {
			named := (of.App == "" || of.App == r.App) && (of.User == "" || of.User == r.User) && (of.Category == "" || of.Category == r.Category)
			if named && o.seesLevel(r.Level, known) {
				page.Overrides = append(page.Overrides, r)
			}
		}
		if page.Next = next; next == "" || len(page.Overrides) >= most {
			break
		}
	}
	return page, nil
}

// Now returns the time of the clock that ends overrides.
func (o *Operator) Now() time.Time { return o.s.with.Limits.Now() }

// Limits are the policies and mutes in force at a level.
type Limits struct {
	limits.Level
	// General is the general policy, and OfCategory the category's own policy; nil for no category.
	General    limits.EffectivePolicy  `json:"general"`
	OfCategory *limits.EffectivePolicy `json:"of_category,omitempty"`
	Override   *limits.Override        `json:"override,omitempty"` // of exactly this level; nil without one
	// Mutes are in force for everything sent at this level, the most specific first.
	Mutes []limits.EffectiveMute `json:"mutes,omitempty"`
	// Categories are the categories' configured policies, if no level is named.
	Categories map[string]limits.EffectivePolicy `json:"categories,omitzero"`
	// Horizon is the longest gap or period of an override.
	Horizon string `json:"horizon"`
}

// Limits returns the policies in force at a level that the principal owns; without a level, the
// configured ones. It returns an *UnknownError for an app or quota that the configuration does
// not have.
func (o *Operator) Limits(ctx context.Context, at limits.Level) (*Limits, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	if at == (limits.Level{}) {
		return o.configuredLimits(), nil
	}
	at, _, err := o.known(at)
	if err != nil {
		return nil, err
	}
	return o.inForce(ctx, at)
}

func (o *Operator) configuredLimits() *Limits {
	l := &Limits{General: o.s.with.Limits.InForce(limits.Level{}), Categories: map[string]limits.EffectivePolicy{}, Horizon: o.horizon()}
	_, categories := o.s.with.Limits.Base()
	for name, p := range categories {
		l.Categories[name] = limits.EffectivePolicy{Policy: p, Source: limits.FromConfiguration}
	}
	return l
}

func (o *Operator) horizon() string { return throttle.FormatPeriod(o.s.with.Overrides.Horizon()) }

// Override returns the policies in force at a level that the principal owns. If the level has no
// override, and the configuration lacks its app or quota, an *UnknownError comes with them.
func (o *Operator) Override(ctx context.Context, at limits.Level) (*Limits, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	at, err := o.named(at)
	if err != nil {
		return nil, err
	}
	of, err := o.inForce(ctx, at)
	if err == nil && of.Override == nil {
		_, _, err = o.known(at)
	}
	return of, err
}

func (o *Operator) inForce(ctx context.Context, at limits.Level) (*Limits, error) {
	at.Mute = false
	general, own, there, err := o.s.with.Overrides.InForce(ctx, o.s.with.Limits, at)
	if err != nil {
		return nil, err
	}
	mutes, err := o.s.with.Overrides.Mutes(ctx, at)
	if err != nil {
		return nil, err
	}
	l := &Limits{Level: at, General: general, Override: there, Mutes: mutes, Horizon: o.horizon()}
	if at.Category != "" {
		l.OfCategory = &own
	}
	return l, nil
}

// named returns the level with the quota's key in place of its name, or an error if the principal
// does not own the level. A quota that is no longer configured is known only by its key.
func (o *Operator) named(at limits.Level) (limits.Level, error) {
	all, err := o.s.with.Quotas()
	q, unknown := all.Find(at.Quota)
	switch {
	case unknown == nil:
		at.Quota = q.Key
	case at.Quota != "" && err != nil:
		return at, err
	}
	return at, o.ownsLevel(at, all)
}

// known is named, but fails if the configuration lacks the level's app or quota. The quota is
// zero if the level has none.
func (o *Operator) known(at limits.Level) (limits.Level, Quota, error) {
	at, err := o.named(at)
	if err != nil || at.App == "" && at.Quota == "" {
		return at, Quota{}, err
	}
	if at.App != "" {
		if err := o.knownApp(at.App); err != nil {
			return at, Quota{}, err
		}
	}
	if at.Quota == "" {
		return at, Quota{}, nil
	}
	all, _ := o.s.with.Quotas()
	q, err := all.Find(at.Quota)
	if err != nil {
		return at, q, &UnknownError{Kind: "quota", Problem: err.Error()}
	}
	return at, q, nil
}

// A Setting is the result of setting an override.
type Setting struct {
	Override limits.Override `json:"override"` // in force, with its author and time
	// Warnings are about the override.
	Warnings []string `json:"warnings,omitempty"`
}

// SetLimit puts an override, or a mute, in force at a level that the principal owns. If a version
// is given, it must be the version of the present override, 0 for no override; else the error is
// limits.ErrConflict. The error of an invalid override is throttle.Faults, with the fields of
// limits.Override.Validate, or an *UnknownError. The error may be limits.ErrTooManyOverrides.
func (o *Operator) SetLimit(ctx context.Context, r limits.Override, version ...int64) (*Setting, error) {
	action := SetLimit
	if r.Mute {
		action = Mute
	}
	if err := o.may(action); err != nil {
		return nil, err
	}
	r, err := o.validated(r, (*limits.Override).Validate)
	if err != nil {
		return nil, err
	}
	before, err := o.inForce(ctx, r.Level)
	if err != nil {
		return nil, err
	}
	if err := o.s.with.Overrides.Set(ctx, r, version...); errors.Is(err, limits.ErrPast) {
		return nil, past
	} else if err != nil {
		return nil, err
	}
	o.did(ctx, action, entryOf(r))
	stands, err := o.s.with.Overrides.Get(ctx, r.Level)
	if err != nil {
		return nil, err
	}
	inForce := before.General
	if before.OfCategory != nil {
		inForce = *before.OfCategory
	}
	return &Setting{*cmp.Or(stands, &r), OverrideWarnings(r, inForce.Policy, o.s.with.Limits.Configured())}, nil
}

// entryOf returns an entry about an override that was set.
func entryOf(r limits.Override) auditlog.Entry {
	e := auditlog.Entry{Level: r.Level, Count: 1, Until: r.Until}
	if !r.Mute {
		e.Limit = r.Policy.String()
	}
	return e
}

// Import puts all the overrides in force if all of them are valid. Its errors are SetLimit's; the
// fields of faults begin with the override's index and a slash.
func (o *Operator) Import(ctx context.Context, all []limits.Override) error {
	checked, err := o.importable(all)
	if err != nil {
		return err
	}
	if err := o.s.with.Overrides.Import(ctx, checked); errors.Is(err, limits.ErrPast) {
		return past
	} else if err != nil {
		return err
	}
	apps := make([]string, len(checked))
	for i, r := range checked {
		apps[i] = r.App
	}
	o.did(ctx, ImportLimits, o.entryIn(apps), slog.Int("count", len(all)))
	return nil
}

// CheckImport returns Import's error if an override is invalid, and changes nothing.
func (o *Operator) CheckImport(_ context.Context, all []limits.Override) error {
	_, err := o.importable(all)
	return err
}

// importable returns the overrides ready to be set, or all their faults.
func (o *Operator) importable(all []limits.Override) ([]limits.Override, error) {
	if err := o.may(ImportLimits); err != nil {
		return nil, err
	}
	first := map[limits.Level]int{}
	var wrong throttle.Faults
	checked := make([]limits.Override, len(all))
	for i := range all {
		var err error
		checked[i], err = o.validated(all[i], (*limits.Override).Validate)
		var its throttle.Faults
		var unknown *UnknownError
		same, there := first[checked[i].Level]
		switch {
		case err == nil && there:
			wrong.Add(strconv.Itoa(i), "is for the same level as override %d", same)
		case err == nil:
			first[checked[i].Level] = i
		case errors.As(err, &its), errors.As(err, &unknown):
			for _, f := range fielderrors.Of(err) {
				f.Field = strings.TrimSuffix(strconv.Itoa(i)+"/"+f.Field, "/")
				wrong = append(wrong, f)
			}
		default:
			return nil, err
		}
	}
	return checked, wrong.Err()
}

// past is the fault of an override that has already expired.
var past = throttle.Faults{{Field: "until", Problem: "has passed"}}

// validated returns the override as the principal can set it, and all its faults.
func (o *Operator) validated(r limits.Override, validate func(*limits.Override, time.Duration) error) (limits.Override, error) {
	at, quota, err := o.known(r.Level)
	if err != nil {
		return r, err
	}
	r.Level, r.By = at, o.principal.Name
	all := fielderrors.Of(validate(&r, o.s.with.Overrides.Horizon()))
	if !r.Until.IsZero() && !r.Until.After(o.s.with.Limits.Now()) {
		all = append(all, past...)
	}
	if general, _ := o.s.with.Limits.Base(); len(r.Policy.Quiet) > 0 && general.Night.Zone == nil {
		all.Add("quiet_hours", "need limits.time_zone in the configuration: the zone of users whose own is not known")
	}
	if len(all) == 0 && r.Quota != "" {
		if err := quota.Check(r.Policy.Rates[0]); err != nil {
			all.Add("rates", "%v", err)
		}
	}
	return r, all.Err()
}

// ErrNoOverride means that there is no override of the level.
var ErrNoOverride = errors.New("this level has no override")

// UnsetLimit removes the override or mute of exactly this level, which the principal owns. The
// level's app or quota need not be configured any more. version is as in SetLimit.
func (o *Operator) UnsetLimit(ctx context.Context, at limits.Level, version ...int64) error {
	action := UnsetLimit
	if at.Mute {
		action = Unmute
	}
	if err := o.may(action); err != nil {
		return err
	}
	at, err := o.named(at)
	if err != nil {
		return err
	}
	there, err := o.s.with.Overrides.Unset(ctx, at, o.principal.Name, version...)
	switch {
	case err != nil:
		return err
	case !there:
		return ErrNoOverride
	}
	o.did(ctx, action, auditlog.Entry{Level: at, Count: 1})
	return nil
}

// Preview returns the effect of the override; nil means the removal of the present override, and
// ErrNoOverride that there is none. Without a level it is about limits.default. Its other errors
// are SetLimit's and ErrPreviewBusy.
func (o *Operator) Preview(ctx context.Context, at limits.Level, r *limits.Override) (*Preview, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	if r != nil {
		checked, err := o.validated(*r, validatePreview)
		if err != nil {
			return nil, err
		}
		at, r = checked.Level, &checked
	} else {
		known, _, err := o.known(at)
		if err != nil {
			return nil, err
		}
		there, err := o.s.with.Overrides.Get(ctx, known)
		switch {
		case err != nil:
			return nil, err
		case there == nil:
			return nil, ErrNoOverride
		}
		at = known
	}
	if err := o.s.refresh(ctx); err != nil {
		return nil, err
	}
	p, err := o.s.with.Preview.Of(ctx, at, r)
	if err == nil && at.Quota != "" {
		o.fillRates(p)
	}
	return p, err
}

// fillRates adds the configured rates to the preview of a quota.
func (o *Operator) fillRates(p *Preview) {
	quotas, _ := o.s.with.Quotas()
	q, err := quotas.Find(p.Level.Quota)
	if err != nil {
		return
	}
	for _, policy := range []*limits.EffectivePolicy{&p.Before, &p.After} {
		if policy.Source == limits.FromConfiguration {
			policy.Policy.Rates = q.Quota.Spec().Rates
		}
	}
}

// Below returns the policy in force at a level that the principal owns, without the level's
// override.
func (o *Operator) Below(at limits.Level) (limits.EffectivePolicy, error) {
	if err := o.may(Look); err != nil {
		return limits.EffectivePolicy{}, err
	}
	at, err := o.named(at)
	return o.s.with.Limits.InForceIf(at, map[limits.Level]*limits.Override{at: nil}), err
}

// LimitsLog returns the limit changes that the principal may see, the newest first. They are older
// than version (0 for all). newest bounds their number.
func (o *Operator) LimitsLog(ctx context.Context, version int64, newest int) ([]limits.Change, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	if o.SeesAll() {
		return o.s.with.Overrides.Log(ctx, version, newest)
	}
	all, _ := o.s.with.Quotas()
	its := []limits.Change{}
	for {
		some, err := o.s.with.Overrides.Log(ctx, version, logPage)
		if err != nil {
			return nil, err
		}
		for _, c := range some {
			if o.seesLevel(c.Level, all) {
				its = append(its, c)
			}
		}
		if len(some) < logPage || len(its) >= newest {
			return its[:min(len(its), newest)], nil
		}
		version = some[len(some)-1].Version
	}
}

// logPage is the number of entries of one read of the log, which keeps limits.LogKept.
const logPage = 1000

// An Undo is a change of a limit, and the override that undoing it restores.
type Undo struct {
	limits.Change
	// Back is the override before the change; nil if there was none or it has expired.
	Back *limits.Override
}

// Undoing returns the override that undoing a change restores at that instant, and whether there
// is anything to undo.
func Undoing(c limits.Change, now time.Time) (back *limits.Override, any bool) {
	back = c.From
	if back != nil && !back.Until.IsZero() && !back.Until.After(now) {
		back = nil
	}
	return back, back != nil || c.To != nil
}

// The errors of an undo.
var (
	ErrNoChange = errors.New("there is no such change, or it is not kept any more")
	ErrNoUndo   = errors.New("the previous override has expired")
)

// UndoOf returns the effect of undoing the change of that version. The principal must own the
// change's level. The error may be ErrNoChange, ErrNoUndo, or limits.ErrConflict if the level has
// changed again since.
func (o *Operator) UndoOf(ctx context.Context, version int64) (*Undo, error) {
	if err := o.may(UndoLimit); err != nil {
		return nil, err
	}
	all, err := o.s.with.Quotas()
	if err != nil {
		return nil, err
	}
	found, err := o.s.with.Overrides.Log(ctx, version+1, 1)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0 || found[0].Version != version || !o.seesLevel(found[0].Level, all):
		return nil, ErrNoChange
	}
	change := found[0]
	if err := o.ownsLevel(change.Level, all); err != nil {
		return nil, err
	}
	back, any := Undoing(change, o.s.with.Limits.Now())
	if !any {
		return nil, ErrNoUndo
	}
	there, err := o.s.with.Overrides.Get(ctx, change.Level)
	if err != nil {
		return nil, err
	}
	u := &Undo{change, back}
	if over := u.over(); there != nil && there.Version != over || there == nil && over != 0 {
		return nil, limits.ErrConflict
	}
	return u, nil
}

// over returns the version of the override that the change set; 0 if it removed the override.
func (u *Undo) over() int64 {
	if u.To == nil {
		return 0
	}
	return u.Version
}

// UndoLimit restores the override before the change of that version, if nothing has changed
// since. Its errors are UndoOf's and SetLimit's.
func (o *Operator) UndoLimit(ctx context.Context, version int64) error {
	u, err := o.UndoOf(ctx, version)
	if err != nil {
		return err
	}
	done := auditlog.Entry{Level: u.Level, Count: 1}
	if u.Back != nil {
		back := *u.Back
		if back, err = o.validated(back, (*limits.Override).Validate); err != nil {
			return err
		}
		err = o.s.with.Overrides.Set(ctx, back, u.over())
		done = entryOf(back)
	} else {
		_, err = o.s.with.Overrides.Unset(ctx, u.Level, o.principal.Name, u.over())
	}
	if err == nil {
		o.did(ctx, UndoLimit, done)
	}
	return err
}

// Quotas returns the status of the quotas that the principal sees.
func (o *Operator) Quotas(ctx context.Context) ([]QuotaStatus, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	all, err := o.s.with.Quotas()
	if err != nil {
		return nil, err
	}
	r := QuotaReader{Overrides: o.s.with.Overrides, Policies: o.s.with.Limits, Meter: o.s.with.Meter}
	return r.Read(ctx, o.quotasOf(all))
}

// An UnknownError refuses a name that the configuration does not have.
type UnknownError struct {
	// Kind is app, quota, range, cause or id.
	Kind string
	// Problem is a sentence that begins with Kind.
	Problem string
	// Choices are the valid names, if none was given.
	Choices []string
}

// Error implements error.
func (e *UnknownError) Error() string { return e.Problem }
