package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/throttle/quiet"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	base := func() *Config {
		c := new(Config)
		c.SetDefaults()
		c.Redis.Address = Address{Mode: Embedded}
		c.Limits.Categories = map[string]Category{"digest": {Policy: throttle.Policy{MinGap: time.Second}}, "news": {Throughput: quota(10, time.Second)}}
		c.Apps = map[string]App{"shop": {APNs: &APNs{Config: apns.Config{Topic: "a"}, Shared: Shared{Quota: &AppQuota{Quota: *quota(10, time.Second)}}}}, "kiosk": {Simulated: true}}
		return c
	}
	for name, c := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"nothing":  {func(*Config) {}, nil},
		"a scalar": {func(c *Config) { c.Worker.Attempts = 9 }, []string{"worker.attempts: 10 → 9"}},
		"a secret": {func(c *Config) { c.Redis.Password = "hunter2" }, []string{"redis.password: none → [hidden]"}},
		"tokens": {func(c *Config) {
			c.HTTP.Tokens = []Token{{Name: "shop", Role: Producer, SHA256: Hash{1}}, {Name: "ada", Role: Operator}}
		}, []string{"http.tokens: none → [{name: shop, role: producer, sha256: [hidden]}, {name: ada, role: operator}]"}},
		"a list": {func(c *Config) { c.Limits.Default.Rates = []throttle.Rate{{Count: 1, Period: time.Second}} }, []string{"limits.default.rates: none → [1/1s]"}},
		"a category's": {func(c *Config) {
			c.Limits.Categories["digest"] = Category{Policy: throttle.Policy{MinGap: time.Minute}}
		}, []string{"limits.categories.digest.min_gap: 1s → 1m"}},
		"quiet hours": {func(c *Config) {
			c.Limits.Default.Quiet = quiet.Hours{{Days: 1 << time.Saturday, From: 22 * 60, Upto: 8 * 60}}
			c.Limits.Categories["free"] = Category{Policy: throttle.Policy{Quiet: quiet.Hours{}}}
		}, []string{"limits.default.quiet_hours: none → [Sa 22:00-08:00]", "limits.categories.free: none → {quiet_hours: []}"}},
		"a category more":     {func(c *Config) { c.Limits.Categories["a b"] = Category{} }, []string{`limits.categories."a b": none → {}`}},
		"a category less":     {func(c *Config) { delete(c.Limits.Categories, "digest") }, []string{"limits.categories.digest: {min_gap: 1s} → none"}},
		"a throughput's rate": {func(c *Config) { c.Limits.Categories["news"] = Category{Throughput: quota(20, time.Second)} }, []string{"limits.categories.news.throughput.rate: 10/1s → 20/1s"}},
		"a category with a throughput": {func(c *Config) { c.Limits.Categories["sale"] = Category{Throughput: quota(5, time.Second)} },
			[]string{"limits.categories.sale: none → {throughput: {rate: 5/1s}}", "limits.categories.sale.throughput: none → {rate: 5/1s}"}},
		"a quota's name": {func(c *Config) {
			c.Apps["shop"] = App{APNs: &APNs{Config: apns.Config{Topic: "a"}, Shared: Shared{Quota: &AppQuota{Name: "europe"}}}}
		}, []string{"apps.shop.apns.quota: {rate: 10/1s} → europe"}},
		"an app's provider":    {func(c *Config) { c.Apps["shop"] = App{} }, []string{"apps.shop.apns: {topic: a, timeout: 0s, quota: {rate: 10/1s}} → none"}},
		"an app more and less": {func(c *Config) { delete(c.Apps, "shop"); c.Apps["x"] = App{} }, []string{"apps.shop: {apns: {topic: a, timeout: 0s, quota: {rate: 10/1s}}} → none", "apps.x: none → {}"}},
		"a section more":       {func(c *Config) { c.Limits.Redis = &Redis{Address: Address{Mode: Single, Hosts: []string{"b:1"}}} }, []string{"limits.redis: none → {address: b:1, dial_timeout: 0s, timeout: 0s}"}},
	} {
		changed := base()
		c.change(changed)
		var got []string
		for _, one := range Changes(base(), changed) {
			got = append(got, one.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// quota returns a token bucket of count in a period.
func quota(count int, period time.Duration) *Quota {
	return &Quota{Rate: throttle.Rate{Count: count, Period: period}, Algorithm: meter.TokenBucket}
}

func TestWithinMatchesKeysOfSection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, other string
		want       bool
	}{
		{"apps.shop.fcm.quota.rate", "apps.*.fcm.quota.*", true},
		{`apps."shop.v2 é".fcm.quota.rate`, "apps.*.fcm.quota.*", true},
		{`apps."a.fcm.quota.b".simulated`, "apps.*.fcm.quota.*", false},
		{"apps.shop.fcm.quota", "apps.*.fcm.quota.*", false},
		{"apps.shop.apns.quota.rate", "apps.*.fcm.quota.*", false},
		{"http.tokens[0].rate", "http.tokens", true},
		{"http.tokens[0]", "http.tokens[1]", false},
		{"http.tokensx", "http.tokens", false},
		{"limits", "", true},
	} {
		if got := Within(c.key, c.other); got != c.want {
			t.Errorf("%s within %s: %t", c.key, c.other, got)
		}
	}
}

// The reload's log names every field by its key, and check --verbose shows it. A new field is
// included without a change here.
func TestChangesListEveryField(t *testing.T) {
	t.Parallel()
	all := leaves(reflect.TypeFor[Config](), "", nil)
	for _, l := range all {
		old, new := new(Config), new(Config)
		l.set(reflect.ValueOf(old).Elem(), l.path, func(reflect.Value) {})
		l.set(reflect.ValueOf(new).Elem(), l.path, alter)
		if got := Changes(old, new); len(got) != 1 || got[0].Key != l.key {
			t.Errorf("%s changes: %q", l.key, got)
		}
		if !slices.Contains(shownPaths("", new.Shown()), l.key) {
			t.Errorf("%s is not shown", l.key)
		}
	}
	if len(all) < 60 {
		t.Errorf("only %d fields", len(all))
	}
}

// A change of a text that may contain a secret shows neither value.
func TestChangesHideSecrets(t *testing.T) {
	t.Parallel()
	told := regexp.MustCompile(`(?:_file|[.](?:username|sentinel_username|server_name|prefix|on_outage|unknown_category|time_zone|` +
		`topic|environment|algorithm|key_id|team_id|project_id|subject|endpoint|listen|origin|format|level))$`)
	texts := 0
	const canary = "https://hooks.example.com/canary-7d1e?key=canary-7d1e"
	for _, l := range leaves(reflect.TypeFor[Config](), "", nil) {
		old, new := new(Config), new(Config)
		l.set(reflect.ValueOf(old).Elem(), l.path, func(reflect.Value) {})
		before := texts
		l.set(reflect.ValueOf(new).Elem(), l.path, func(v reflect.Value) {
			if v.Kind() == reflect.String {
				v.SetString(canary)
				texts++
			}
		})
		if texts == before {
			continue
		}
		if got := Changes(old, new); len(got) != 1 || strings.Contains(got[0].String(), "canary") != told.MatchString(l.key) {
			t.Errorf("%s is told: %q", l.key, got)
		}
	}
	if texts < 40 {
		t.Errorf("only %d texts", texts)
	}
}

// A leaf is a field without fields below it; path has the indices that lead to it.
type leaf struct {
	key  string
	path []int
}

func leaves(s reflect.Type, key string, path []int) (found []leaf) {
	switch s.Kind() {
	case reflect.Pointer:
		return leaves(s.Elem(), key, path)
	case reflect.Map:
		return leaves(s.Elem(), join(key, "x"), path)
	case reflect.Struct:
		for _, f := range fieldsOf(s) {
			found = append(found, leaves(f.Type, join(key, tagOf(f)), append(slices.Clone(path), f.Index...))...)
		}
	}
	if found == nil {
		found = []leaf{{key, path}}
	}
	return found
}

// set creates the path to the leaf, and changes the leaf.
func (l *leaf) set(v reflect.Value, path []int, change func(reflect.Value)) {
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		l.set(v.Elem(), path, change)
	case v.Kind() == reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		l.set(element, path, change)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), element)
	case v.Kind() == reflect.Struct && len(path) > 0:
		l.set(v.Field(path[0]), path[1:], change)
	default:
		change(v)
	}
}

func alter(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("changed")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Struct: // an address
		alter(v.Field(0))
	default:
		panic(v.Type().String())
	}
}
