package throttle

// Limits are the policies in force: a general one, and those of categories.
type Limits struct {
	general    Policy
	categories map[string]Policy
	scopes     map[string][]Scope
	otherwise  []Scope
}

// NewLimits returns limits of these policies, which stay as they are.
func NewLimits(general Policy, categories map[string]Policy) *Limits {
	l := &Limits{general: general, categories: categories, scopes: make(map[string][]Scope, len(categories))}
	l.otherwise = l.resolve("")
	for name := range categories {
		l.scopes[name] = l.resolve(name)
	}
	return l
}

func (l *Limits) resolve(category string) []Scope {
	own := l.categories[category]
	if own.Exempt {
		return nil
	}
	var scopes []Scope
	if !l.general.Unlimited() {
		scopes = append(scopes, Scope{General, l.general})
	}
	if category != "" && !own.Unlimited() {
		scopes = append(scopes, Scope{category, own})
	}
	return scopes
}

// Scopes answers what limits a notification of that category, for
// Request.Scopes: the general policy and the category's own, where there are
// any. It is empty for an exempt category. The caller must not change it.
func (l *Limits) Scopes(category string) []Scope {
	if scopes, ok := l.scopes[category]; ok {
		return scopes
	}
	return l.otherwise
}
