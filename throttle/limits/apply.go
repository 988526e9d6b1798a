package limits

import (
	"maps"
	"reflect"
)

// apply puts the changes in force, in their order.
func (l *Policies) apply(changes []Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	general := false
	for _, c := range changes {
		if delete(l.timed, c.level()); c.To != nil && !c.To.Until.IsZero() {
			l.timed[c.level()] = c.To
		}
		l.change(c.User, func(overrides map[string]*Override) {
			if c.To == nil {
				delete(overrides, c.Category)
			} else {
				overrides[c.Category] = c.To
			}
		})
		general = general || c.User == ""
	}
	if general {
		l.renew(l.Base())
	}
}

// ended are the fields of so many of the overrides at most whose end has come.
func (l *Policies) ended(most int) (fields []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for level, o := range l.timed {
		if o.ended(l.now()) && len(fields) < most {
			fields = append(fields, field(level[0], level[1]))
		}
	}
	return fields
}

// replace puts these overrides in the place of all, and returns what has
// changed by it. A nil one is none. Only one caller at a time applies and replaces.
func (l *Policies) replace(all map[[2]string]*Override) []Change {
	changes := l.differences(all)
	l.apply(changes)
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.timed, func(level [2]string, _ *Override) bool { return all[level] == nil })
	return changes
}

// differences returns what has to change to get to these overrides.
func (l *Policies) differences(all map[[2]string]*Override) []Change {
	var changes []Change
	current := map[[2]string]*Override{}
	for _, p := range l.users.Range {
		for _, o := range p.(*userPolicy).overrides {
			current[o.level()] = o
		}
	}
	for level, from := range current {
		if all[level] == nil {
			changes = append(changes, Change{Why: "unset", User: level[0], Category: level[1], From: from})
		}
	}
	for level, to := range all {
		if from := current[level]; to != nil && !reflect.DeepEqual(from, to) {
			changes = append(changes, Change{Why: "set", At: to.At, By: to.By, User: level[0], Category: level[1], From: from, To: to})
		}
	}
	return changes
}
