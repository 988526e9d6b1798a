package limits

import (
	"errors"
	"net/url"
)

// A Level says whose policy an override takes the place of: that of one app or of
// every app, of one user or of everyone, the general one or a category's. What is
// empty is not named. The zero Level is that of the configuration. Or it says whose rate
// it takes the place of: that of a quota, by its key with the meter, and of nothing else.
// Or it says who is muted: a mute stands beside the policies, and takes the place of none.
type Level struct {
	App      string `json:"app,omitempty"`
	User     string `json:"user,omitempty"`
	Category string `json:"category,omitempty"`
	Quota    string `json:"quota,omitempty"`
	Mute     bool   `json:"mute,omitempty"`
}

// precedence returns the levels whose overrides may be in force at l, of which the
// first that has one is.
func (l Level) precedence() []Level {
	return []Level{l, {User: l.User, Category: l.Category}, {App: l.App, Category: l.Category}, {Category: l.Category}}
}

// A Source is where a policy in force is from: the configuration, or the override of
// the level that it names.
type Source string

// The sources.
const (
	FromConfiguration   Source = "configuration"
	FromApp             Source = "app"
	FromUser            Source = "user"
	FromAppUser         Source = "app and user"
	FromCategory        Source = "category"
	FromAppCategory     Source = "app and category"
	FromUserCategory    Source = "user and category"
	FromAppUserCategory Source = "app, user and category"
	FromQuota           Source = "quota"
)

// Words name s for people, behind "from".
func (s Source) Words() string {
	if s == FromConfiguration {
		return "the configuration"
	}
	return "the override of the " + string(s)
}

var sources = map[[3]bool]Source{
	{}:                   FromConfiguration,
	{true, false, false}: FromApp,
	{false, true, false}: FromUser,
	{true, true, false}:  FromAppUser,
	{false, false, true}: FromCategory,
	{true, false, true}:  FromAppCategory,
	{false, true, true}:  FromUserCategory,
	{true, true, true}:   FromAppUserCategory,
}

func (l Level) source() Source {
	if l.Quota != "" {
		return FromQuota
	}
	return sources[[3]bool{l.App != "", l.User != "", l.Category != ""}]
}

// A levelName is one name of a level.
type levelName struct {
	of    string
	value *string
}

func (l *Level) names() []levelName {
	return []levelName{{"app", &l.App}, {"user", &l.User}, {"category", &l.Category}, {"quota", &l.Quota}}
}

// Key names the level as app=shop&user=u1, sorted and escaped as a query is. That of a mute
// has mute=true.
func (l Level) Key() string {
	named := url.Values{}
	for _, name := range l.names() {
		if *name.value != "" {
			named.Set(name.of, *name.value)
		}
	}
	if l.Mute {
		named.Set("mute", "true")
	}
	return named.Encode()
}

var errForeign = errors.New("an entry of the overrides is not one of this version")

// readLevel reads what Key writes. One that names what this version does not know
// is none of a wider level.
func readLevel(field string) (l Level, err error) {
	named, err := url.ParseQuery(field)
	for _, name := range l.names() {
		*name.value = named.Get(name.of)
	}
	l.Mute = named.Get("mute") == "true"
	if err != nil || l == (Level{}) || l.Key() != field {
		return l, errForeign
	}
	return l, nil
}
