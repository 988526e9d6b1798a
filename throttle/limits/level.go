package limits

import (
	"errors"
	"net/url"
)

// A Level identifies the policy that an override replaces: for one app or all apps, for one user
// or all users, the general policy or a category's. An empty App or User stands for all. The zero
// Level is limits.default. With Quota, the meter's key, it identifies only that quota's rate. With
// Mute, it identifies a mute, which replaces no policy.
type Level struct {
	App      string `json:"app,omitempty"`
	User     string `json:"user,omitempty"`
	Category string `json:"category,omitempty"`
	Quota    string `json:"quota,omitempty"`
	Mute     bool   `json:"mute,omitempty"`
}

// precedence returns the levels that apply to l; the first one with an override wins.
func (l Level) precedence() []Level {
	return []Level{l, {User: l.User, Category: l.Category}, {App: l.App, Category: l.Category}, {Category: l.Category}}
}

// A Source is the origin of a policy in force: the configuration, or the level of an override.
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

// Words returns a readable form of s, to follow "from".
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

// A levelName is one of a level's names, with the field that has it.
type levelName struct {
	of    string
	value *string
}

func (l *Level) names() []levelName {
	return []levelName{{"app", &l.App}, {"user", &l.User}, {"category", &l.Category}, {"quota", &l.Quota}}
}

// Key returns the level as a query such as app=shop&user=u1, sorted and escaped. A mute has
// mute=true.
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

var errForeign = errors.New("an entry of the overrides has the form of a different version of pushpace")

// readLevel parses Key's form. An unknown name is an error: without it the level would be wider.
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
