package limits

import (
	"maps"
	"reflect"
)

// apply applies the changes in order.
func (l *Policies) apply(changes []Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var everyone, mutes map[Level]*Override // nil for no change
	for _, c := range changes {
		put := func(overrides map[Level]*Override) {
			if c.To == nil {
				delete(overrides, c.Level)
			} else {
				overrides[c.Level] = c.To
			}
		}
		switch {
		case c.Mute:
			if mutes == nil {
				mutes = maps.Clone(l.muted())
			}
			put(mutes)
		case c.User != "":
			l.change(c.User, put)
		default:
			if everyone == nil {
				everyone = maps.Clone(l.base.Load().overrides)
			}
			put(everyone)
		}
	}
	if everyone != nil {
		l.renew(everyone)
	}
	if mutes != nil {
		l.mutes.Store(&mutes)
	}
}

// replace replaces all overrides and returns the changes. A nil override removes its level's. Only
// one caller at a time may call apply or replace.
func (l *Policies) replace(all map[Level]*Override) []Change {
	changes := l.differences(all)
	l.apply(changes)
	return changes
}

// differences returns the changes from the current overrides to all.
func (l *Policies) differences(all map[Level]*Override) []Change {
	var changes []Change
	current := maps.Clone(l.base.Load().overrides)
	maps.Copy(current, l.muted())
	for _, p := range l.users.Range {
		maps.Copy(current, p.(*userPolicy).overrides)
	}
	for level, from := range current {
		if all[level] == nil {
			changes = append(changes, Change{Why: "unset", Level: level, From: from})
		}
	}
	for level, to := range all {
		if from := current[level]; to != nil && !reflect.DeepEqual(from, to) {
			changes = append(changes, Change{Why: "set", At: to.At, By: to.By, Level: level, From: from, To: to})
		}
	}
	return changes
}
