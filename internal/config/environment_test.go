package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

const environmentBase = `
redis: {address: embedded}
limits:
  default: {min_gap: 1s, rates: [10/1m]}
  categories:
    flash-sale: {rates: [1/24h]}
apps:
  Shop.EU: {simulated: true}
`

func TestEnvironment(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		environ []string
		get     func(*Config) any
		want    any
	}{
		{"cluster", []string{"PUSHPACE_REDIS__ADDRESS=a:1, b:2"},
			func(c *Config) any { return c.Redis.Address }, Address{Mode: Cluster, Hosts: []string{"a:1", "b:2"}}},
		{"sentinels", []string{"PUSHPACE_REDIS__ADDRESS__SENTINELS=a:1,b:2", "PUSHPACE_REDIS__ADDRESS__MASTER=main"},
			func(c *Config) any { return c.Redis.Address }, Address{Mode: Sentinel, Master: "main", Hosts: []string{"a:1", "b:2"}}},
		{"list", []string{"PUSHPACE_LIMITS__DEFAULT__RATES=5/1s, 6/1m"},
			func(c *Config) any { return c.Limits.Default.Rates }, []throttle.Rate{{Count: 5, Period: time.Second}, {Count: 6, Period: time.Minute}}},
		{"empty list", []string{"PUSHPACE_LIMITS__DEFAULT__RATES="},
			func(c *Config) any { return len(c.Limits.Default.Rates) }, 0},
		{"number and boolean", []string{"PUSHPACE_WORKER__ATTEMPTS=2", "PUSHPACE_REDIS__STRICT=true"},
			func(c *Config) any { return []any{c.Worker.Attempts, c.Redis.Strict} }, []any{2, true}},
		{"value with an equals sign", []string{"PUSHPACE_REDIS__ADDRESS=h:1", "PUSHPACE_REDIS__PASSWORD=a=b"},
			func(c *Config) any { return c.Redis.Password }, Secret("a=b")},
		{"secret with line ends", []string{"PUSHPACE_REDIS__ADDRESS=h:1", "PUSHPACE_REDIS__PASSWORD= a b \r\n\n"},
			func(c *Config) any { return c.Redis.Password }, Secret(" a b ")},
		{"path from the working directory", []string{"PUSHPACE_REDIS__ADDRESS=h:1", "PUSHPACE_REDIS__PASSWORD_FILE=testdata/secret"},
			func(c *Config) any { return c.Redis.Password }, Secret("hunter2")},
		{"name in the file", []string{"PUSHPACE_LIMITS__CATEGORIES__FLASH_SALE__MIN_GAP=1h"},
			func(c *Config) any { return c.Limits.Categories["flash-sale"].Policy },
			throttle.Policy{MinGap: time.Hour, Rates: []throttle.Rate{{Count: 1, Period: 24 * time.Hour}}}},
		{"name with capitals in the file", []string{"PUSHPACE_APPS__SHOP_EU__SIMULATED=false",
			"PUSHPACE_APPS__SHOP_EU__FCM__CREDENTIALS_FILE=testdata/secret"},
			func(c *Config) any { return c.Apps["Shop.EU"].FCM.CredentialsFile }, "testdata/secret"},
		{"new name", []string{"PUSHPACE_APPS__NEWS_APP__FCM__CREDENTIALS_FILE=testdata/secret"},
			func(c *Config) any { return c.Apps["news_app"].FCM.CredentialsFile }, "testdata/secret"},
		{"new Redis for the limits has its defaults", []string{"PUSHPACE_LIMITS__REDIS__ADDRESS=h:1", "PUSHPACE_REDIS__PREFIX=acme"},
			func(c *Config) any { return *c.Limits.Redis },
			Redis{Address: Address{Mode: Single, Hosts: []string{"h:1"}}, Prefix: "acme", DialTimeout: 2 * time.Second, Timeout: 2 * time.Second}},
		{"quota by its name", []string{"PUSHPACE_LIMITS__QUOTAS__EUROPE__RATE=600/1m", "PUSHPACE_LIMITS__QUOTAS__EUROPE__APPS=news",
			"PUSHPACE_APPS__NEWS__FCM__CREDENTIALS_FILE=testdata/secret", "PUSHPACE_APPS__NEWS__FCM__QUOTA=europe"},
			func(c *Config) any { return c.Apps["news"].FCM.Quota.Name }, "europe"},
		{"quota by its rate", []string{"PUSHPACE_APPS__NEWS__FCM__CREDENTIALS_FILE=testdata/secret",
			"PUSHPACE_APPS__NEWS__FCM__QUOTA__RATE=600/1m", "PUSHPACE_APPS__NEWS__FCM__CONCURRENCY=9"},
			func(c *Config) any { return c.Apps["news"].FCM.Shared },
			Shared{&AppQuota{Quota: *quota(600, time.Minute)}, 9}},
		{"not ours", append([]string{"REDIS__DB=9", "no equals sign"}, notOurs...),
			func(c *Config) any { return c.Redis.DB }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := Parse("c.yaml", []byte(environmentBase), tt.environ)
			must(t, err)
			if got := tt.get(c); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %#v, want %#v", got, tt.want)
			}
		})
	}
}

// notOurs are variables that begin with PUSHPACE_ but set no key.
var notOurs = []string{
	"PUSHPACE_REQUIRE_REDIS=1", "PUSHPACE_REDIS_SERVER=valkey-server", "PUSHPACE_CONFIG=x", "PUSHPACE_API=http://127.0.0.1:8080", "PUSHPACE_API_TOKEN=" + canary,
	"PUSHPACE_SERVICE_HOST=10.0.0.1", "PUSHPACE_SERVICE_PORT=80", "PUSHPACE_SERVICE_PORT_HTTP=80", "PUSHPACE_PORT=tcp://10.0.0.1:80",
	"PUSHPACE_PORT_80_TCP=tcp://10.0.0.1:80", "PUSHPACE_PORT_80_TCP_PROTO=tcp", "PUSHPACE_PORT_80_TCP_PORT=80", "PUSHPACE_PORT_80_TCP_ADDR=10.0.0.1",
	"PUSHPACE_REDIS_SERVICE_HOST=10.0.0.2", "PUSHPACE_REDIS_SERVICE_PORT=6379", "PUSHPACE_REDIS_PORT=tcp://1.2.3.4:6379",
	"PUSHPACE_REDIS_PORT_6379_TCP_ADDR=1.2.3.4",
}

// An unknown variable causes a warning. A variable of another program, or a refused one, does not.
func TestUnknownVariableCausesWarning(t *testing.T) {
	t.Parallel()
	environ := append([]string{"PUSHPACE_FOO=" + canary, "PUSHPACE_PORT=80", "PUSHPACE_=x", "PATH=/bin", "PUSHPACE_REDIS__ADDRESS=h:1"}, notOurs...)
	cfg, err := Parse("c.yaml", []byte(environmentBase), environ)
	must(t, err)
	got := cfg.Warnings()
	const unknown = "unknown variable PUSHPACE_"
	want := []string{unknown, unknown + "FOO", unknown + "PORT"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEnvironmentFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		entry string
		want  string // how the error begins
	}{
		{"PUSHPACE_REDIS=h:1", "PUSHPACE_REDIS: redis: is not one value"},
		{"PUSHPACE_REDIS__=h:1", "PUSHPACE_REDIS__: redis: unknown key"},
		{"PUSHPACE_RDIS__DB=1", "PUSHPACE_RDIS__DB: unknown key; want one of redis"},
		{"PUSHPACE_HTTP__TOKENS=" + canary, "PUSHPACE_HTTP__TOKENS: http.tokens: is a list of keys with values: set it in the file"},
		{"PUSHPACE_HTTP__LISTEN=0.0.0.0:80", "PUSHPACE_HTTP__LISTEN: http.listen: is not the loopback"},
		{"PUSHPACE_REDIS__DB=" + canary, "PUSHPACE_REDIS__DB: redis.db: want a whole number"},
		{"PUSHPACE_REDIS__DB=-1", "PUSHPACE_REDIS__DB: redis.db: is -1; want 0 to 65535"},
		{"PUSHPACE_REDIS__DB__X=1", "PUSHPACE_REDIS__DB__X: redis.db: is one value"},
		{"PUSHPACE_REDIS__ADDRESS=redis://u:" + canary + "@h:1", "PUSHPACE_REDIS__ADDRESS: redis.address: a URL is not supported"},
		{"PUSHPACE_REDIS__ADDRESS=localhost", "PUSHPACE_REDIS__ADDRESS: redis.address: the port is missing, such as in localhost:6379; want embedded"},
		{"PUSHPACE_REDIS__ADDRESS=:" + canary + "@h", "PUSHPACE_REDIS__ADDRESS: redis.address: want embedded"},
		{"PUSHPACE_REDIS_PASSWORD=" + canary, "PUSHPACE_REDIS_PASSWORD: unknown variable; the parts of a key are joined by __"},
		{"PUSHPACE_REDIS_PORT_NUMBER=6379", "PUSHPACE_REDIS_PORT_NUMBER: unknown variable; the parts of a key are joined by __"},
		{"PUSHPACE_APPS_SHOP_EU_APNS_KEY_FILE=x", "PUSHPACE_APPS_SHOP_EU_APNS_KEY_FILE: unknown variable; the parts of a key are joined by __"},
		{"PUSHPACE_LIMITS__DEFAULT_MIN_GAP=1s", "PUSHPACE_LIMITS__DEFAULT_MIN_GAP: limits: unknown key; want one of"},
		{"PUSHPACE_REDIS__ADDRESS__HOST=h:1", "PUSHPACE_REDIS__ADDRESS__HOST: redis.address: unknown key; want one of master, sentinels"},
		{"PUSHPACE_REDIS__ADDRESS__MASTER=main", "PUSHPACE_REDIS__ADDRESS__MASTER: redis.address.sentinels: is missing"},
		{"PUSHPACE_REDIS__PASSWORD=" + canary, "PUSHPACE_REDIS__PASSWORD: redis.password: the embedded Redis takes no credentials"},
		{"PUSHPACE_REDIS__PASSWORD_FILE=no-such-file", "PUSHPACE_REDIS__PASSWORD_FILE: redis.password_file: the file cannot be read"},
		{"PUSHPACE_LIMITS__DEFAULT__RATES=1/1s,ten/1m", `PUSHPACE_LIMITS__DEFAULT__RATES: limits.default.rates[1]: rate "ten/1m"`},
		{"PUSHPACE_LIMITS__DEFAULT__MIN_GAP=48h", "PUSHPACE_LIMITS__DEFAULT__MIN_GAP: limits.default.min_gap: 48h is longer"},
		{"PUSHPACE_LIMITS__HORIZON=", "PUSHPACE_LIMITS__HORIZON: limits.horizon: want a duration"},
		{"PUSHPACE_APPS__shop__SIMULATED=true", "PUSHPACE_APPS__shop__SIMULATED: apps: want the name in capitals"},
		{"PUSHPACE_APPS____SIMULATED=true", "PUSHPACE_APPS____SIMULATED: apps: a name is empty"},
		{"PUSHPACE_APPS__NEWS__SIMULATED=false", "PUSHPACE_APPS__NEWS__SIMULATED: apps.news: has no provider"},
		{"PUSHPACE_LIMITS__CATEGORIES__FLASH_SALE__THROUGHPUT=1/1s", "PUSHPACE_LIMITS__CATEGORIES__FLASH_SALE__THROUGHPUT: limits.categories.flash-sale.throughput: is not one value"},
		{"PUSHPACE_LIMITS__CATEGORIES__FLASH_SALE__THROUGHPUT__BURST=10", "c.yaml:6:5: limits.categories.flash-sale.throughput.rate: is missing"},
	} {
		t.Run(tt.entry, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("c.yaml", []byte(environmentBase), []string{tt.entry})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestAmbiguousVariableIsRefused(t *testing.T) {
	t.Parallel()
	file := "redis: {address: embedded}\napps: {a-b: {simulated: true}, a_b: {simulated: true}}"
	_, err := Parse("c.yaml", []byte(file), []string{"PUSHPACE_APPS__A_B__SIMULATED=false"})
	if want := `PUSHPACE_APPS__A_B__SIMULATED: apps: stands for each of ["a-b" "a_b"]: set it in the file`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
