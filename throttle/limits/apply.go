package limits

import (
	"hash/maphash"
	"maps"
)

// apply puts the changes in force, in their order.
func (l *Policies) apply(changes []Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	general := false
	for _, c := range changes {
		if c.User != "" {
			l.applyTo(c)
			continue
		}
		general = true
		if c.To == nil {
			delete(l.categories, c.Category)
		} else {
			l.categories[c.Category] = c.To
		}
	}
	if general {
		l.renew()
	}
}

func (l *Policies) applyTo(c Change) {
	shard := l.shard(c.User)
	users := map[string]*userPolicy{}
	if now := shard.Load(); now != nil {
		users = maps.Clone(*now)
	}
	p := users[c.User]
	if c.To == nil {
		p = p.without(c.Category)
	} else {
		p = p.with(c.To)
	}
	if p == nil {
		delete(users, c.User)
	} else {
		users[c.User] = p
	}
	shard.Store(&users)
}

// replace puts these overrides in the place of all, and returns what has
// changed by it. A nil one is none.
func (l *Policies) replace(all map[[2]string]*Override) []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	changes := l.differences(all)
	l.categories = map[string]*Override{}
	var shards [userShards]map[string]*userPolicy
	for level, o := range all {
		switch {
		case o == nil:
		case level[0] == "":
			l.categories[o.Category] = o
		default:
			i := maphash.String(l.seed, o.User) % userShards
			if shards[i] == nil {
				shards[i] = map[string]*userPolicy{}
			}
			shards[i][o.User] = shards[i][o.User].with(o)
		}
	}
	for i := range shards {
		if shards[i] == nil {
			l.users[i].Store(nil)
		} else {
			l.users[i].Store(&shards[i])
		}
	}
	l.renew()
	return changes
}

// differences returns what has to change to get to these overrides.
func (l *Policies) differences(all map[[2]string]*Override) []Change {
	var changes []Change
	current := map[[2]string]*Override{}
	for _, o := range l.categories {
		current[o.level()] = o
	}
	for i := range l.users {
		if users := l.users[i].Load(); users != nil {
			for _, p := range *users {
				for o := range p.all {
					current[o.level()] = o
				}
			}
		}
	}
	for level, from := range current {
		if all[level] == nil {
			changes = append(changes, Change{Why: "unset", User: level[0], Category: level[1], From: from})
		}
	}
	for level, to := range all {
		if from := current[level]; to != nil && (from == nil || !from.At.Equal(to.At)) {
			changes = append(changes, Change{Why: "set", At: to.At, By: to.By, User: level[0], Category: level[1], From: from, To: to})
		}
	}
	return changes
}
