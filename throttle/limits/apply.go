package limits

import "reflect"

// apply puts the changes in force, in their order.
func (l *Policies) apply(changes []Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	general := false
	for _, c := range changes {
		put := func(overrides map[string]*Override) {
			if c.To == nil {
				delete(overrides, c.Category)
			} else {
				overrides[c.Category] = c.To
			}
		}
		if c.User != "" {
			l.change(c.User, put)
		} else {
			put(l.categories)
			general = true
		}
	}
	if general {
		l.renew()
	}
}

// replace puts these overrides in the place of all, and returns what has
// changed by it. A nil one is none. Only one caller at a time applies and replaces.
func (l *Policies) replace(all map[[2]string]*Override) []Change {
	changes := l.differences(all)
	l.apply(changes)
	return changes
}

// differences returns what has to change to get to these overrides.
func (l *Policies) differences(all map[[2]string]*Override) []Change {
	var changes []Change
	current := map[[2]string]*Override{}
	l.mu.Lock()
	for _, o := range l.categories {
		current[o.level()] = o
	}
	l.mu.Unlock()
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
