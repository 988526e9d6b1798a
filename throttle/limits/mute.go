package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// muteFaults returns the errors of a mute.
func (o *Override) muteFaults() (all throttle.Faults) {
	if o.Quota != "" {
		all.Add("quota", "cannot be muted: mute an app, a user or a category")
	}
	if o.Policy.IsSet() || o.Policy.Exempt {
		all.Add("mute", "excludes a policy: a mute changes no limits")
	}
	return all
}

// muteLevels returns the levels of mutes that apply to l.
func (l Level) muteLevels() (all []Level) {
	for _, app := range named(l.App) {
		for _, user := range named(l.User) {
			for _, category := range named(l.Category) {
				if of := (Level{App: app, User: user, Category: category}); of != (Level{}) {
					of.Mute = true
					all = append(all, of)
				}
			}
		}
	}
	return all
}

// named returns the list of the name and "", without duplicates.
func named(name string) []string {
	if name == "" {
		return []string{""}
	}
	return []string{name, ""}
}

// findMute returns the mute that holds a notification of that level at now, in Unix ms; nil for
// none. If exempt, only a mute with All holds the notification.
func findMute(mutes map[Level]*Override, at Level, exempt bool, now int64) *Override {
	for _, of := range at.muteLevels() {
		if o := mutes[of]; o != nil && !o.ended(now) && (o.All || !exempt) {
			return o
		}
	}
	return nil
}

// muted returns the known mutes. The caller must not modify the map.
func (l *Policies) muted() map[Level]*Override { return *l.mutes.Load() }

// Muted reports whether a mute holds notifications of that app, user and category; it may be at
// any of their levels. Critical notifications and exempt categories pass a mute without All.
func (l *Policies) Muted(at Level, critical bool) bool {
	mutes := l.muted()
	if len(mutes) == 0 || findMute(mutes, at, false, l.now()) == nil {
		return false
	}
	return !l.Passes(at, critical) || findMute(mutes, at, true, l.now()) != nil
}

// Passes reports whether a notification of that app, user and category passes mutes without All.
func (l *Policies) Passes(at Level, critical bool) bool {
	return critical || at.Category != "" && l.InForce(at).Policy.Exempt
}

// NewestMute returns the newest mute; nil for none.
func (l *Policies) NewestMute() (last *Override) {
	for _, o := range l.muted() {
		if last == nil || o.Version > last.Version {
			last = o
		}
	}
	return last
}

// An EffectiveMute is a mute in force: its level, its extent, and its end (zero for never).
type EffectiveMute struct {
	Level  Level     `json:"-"`
	Source Source    `json:"source"`
	All    bool      `json:"all,omitempty"`
	Until  time.Time `json:"until,omitzero"`
}

// Mutes returns the mutes now in Redis that apply to the level, the most specific first.
func (o *Overrides) Mutes(ctx context.Context, at Level) ([]EffectiveMute, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	levels := at.muteLevels()
	if len(levels) == 0 {
		return nil, nil
	}
	fields := make([]string, len(levels))
	for i, level := range levels {
		fields[i] = level.Key()
	}
	pipe := o.client.Pipeline()
	clock, values := pipe.Time(ctx), pipe.HMGet(ctx, o.keys[0], fields...)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read the mutes: %w", err)
	}
	var all []EffectiveMute
	for i, value := range values.Val() {
		text, ok := value.(string)
		if !ok {
			continue
		}
		one, err := readOverride(fields[i], text)
		if err != nil {
			return nil, err
		}
		if !one.ended(clock.Val().UnixMilli()) {
			all = append(all, EffectiveMute{one.Level, one.source(), one.All, one.Until})
		}
	}
	return all, nil
}
