package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/fcm/fcmconfig"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/throttle/quiet"
)

func TestParseEverything(t *testing.T) {
	t.Parallel()
	got, err := Load("testdata/full.yaml", nil)
	must(t, err)
	want := &Config{
		Redis: Redis{
			Address:  Address{Mode: Sentinel, Master: "main", Hosts: []string{"10.0.0.1:26379", "[::1]:26379"}},
			Username: "pushpace", Password: "0123", SentinelPassword: "hunter2",
			SentinelPasswordFile: "testdata/secret", DB: 3,
			TLS: TLS{Enabled: true, CAFile: "testdata/secret", ServerName: "redis.example.com",
				CertFile: "testdata/secret", KeyFile: "testdata/secret"},
			Prefix: "acme", Acknowledged: 2, Strict: true, DialTimeout: time.Second, Timeout: 1500 * time.Millisecond,
		},
		Worker: Worker{Concurrency: 512, ShutdownTimeout: 25 * time.Second, Attempts: 5,
			RetryTime: time.Hour, IDRetention: 48 * time.Hour, DeadLetters: 2, Outcomes: 5000},
		Limits: Limits{
			Horizon: 48 * time.Hour, OnOutage: throttle.Open, UnknownCategory: limits.RefuseUnknown, TimeZone: "Asia/Tokyo", QuietHoursSpread: time.Minute, MaxBooked: 500,
			Default: throttle.Policy{MinGap: time.Second, Rates: []throttle.Rate{
				{Count: 10, Period: time.Minute}, {Count: 100, Period: 24 * time.Hour}}},
			Categories: map[string]Category{
				"marketing": {Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: 48 * time.Hour}}, Quiet: quietHours}},
				"security":  {Policy: throttle.Policy{Exempt: true}},
				"news": {Policy: throttle.Policy{MinGap: time.Second}, Throughput: &Quota{
					Rate: throttle.Rate{Count: 50000, Period: time.Minute}, Algorithm: meter.TokenBucket, Burst: 500}},
				"free": {Policy: throttle.Policy{Quiet: quiet.Hours{}}},
			},
			Quotas: map[string]NamedQuota{"europe": {Apps: []string{"shop.v2 é"}, Quota: Quota{
				Rates:     []throttle.Rate{{Count: 10, Period: time.Second}, {Count: 300, Period: time.Minute}},
				Algorithm: meter.SlidingWindow, Cells: 5}}},
			Device: &Device{Quota{Rates: []throttle.Rate{{Count: 240, Period: time.Minute}, {Count: 5000, Period: time.Hour}}, Algorithm: meter.FixedWindow}},
			Redis: &Redis{Address: Address{Mode: Cluster, Hosts: []string{"a:7000", "b:7000"}},
				Prefix: "acme", DialTimeout: 2 * time.Second, Timeout: 2 * time.Second},
		},
		Apps: map[string]App{
			"demo": {Simulated: true, DeadTokens: Reports{Webhook: &Webhook{
				URL: "https://example.com/dead-tokens", Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Timeout: 2 * time.Second}},
				Outcomes: Reports{Webhook: &Webhook{
					URL: "https://example.com/outcomes", Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Timeout: 2 * time.Second}}},
			"shop.v2 é": {APNs: &APNs{Config: apns.Config{Topic: "com.example.shop", KeyFile: "testdata/secret", KeyID: "0123456789", TeamID: "ABCDEFGHIJ", Environment: apns.Production, Timeout: apns.DefaultTimeout},
				Shared: Shared{Quota: &AppQuota{Name: "europe", Quota: Quota{Algorithm: meter.TokenBucket}}, Concurrency: 2000}},
				FCM: &FCM{Config: fcmconfig.Config{CredentialsFile: "testdata/secret", ProjectID: "shop-1", Timeout: fcmconfig.DefaultTimeout},
					Shared: Shared{Quota: &AppQuota{Quota: Quota{Rate: throttle.Rate{Count: 600000, Period: time.Minute}, Algorithm: meter.TokenBucket, Ramp: 30 * time.Second}}}}},
		},
		HTTP: HTTP{
			Listen: "0.0.0.0:8443", TLS: ServerTLS{"testdata/secret", "testdata/secret"},
			Tokens: []Token{{Name: "shop", Role: Producer, SHA256: hash(0)}, {Name: "ada", Role: Operator, SHA256: hash(0xff),
				Rate: &Quota{Rate: throttle.Rate{Count: 5, Period: time.Second}, Algorithm: meter.LeakyBucket}}},
			Console: Console{Origin: "https://ops.example.com:8443"},
			MaxBody: 65536, MaxQueue: 10, MaxRequests: 20, ReadTimeout: time.Second, Timeout: 2 * time.Second,
		},
		Log:       Log{Level: "warn", Format: JSON},
		Telemetry: Telemetry{Listen: "127.0.0.1:9090", Tracing: Tracing{Endpoint: "https://collector.example.com/v1/traces", Ratio: 0.5}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%#v\nwant\n%#v", got, want)
	}
}

var quietHours = quiet.Hours{{Days: 1<<7 - 1, From: 20 * 60, Upto: 10 * 60}, {Days: 1 << time.Sunday, From: 0, Upto: 24 * 60}}

// hash returns the bytes from 0 to 31, but with first as the first byte.
func hash(first byte) Hash {
	var h Hash
	for i := range h {
		h[i] = byte(i)
	}
	h[0] = first
	return h
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for listen, want := range map[Listen]bool{
		"127.0.0.1:80": true, "127.8.0.1:80": true, "[::1]:80": true, "localhost:80": true,
		"0.0.0.0:80": false, "[::]:80": false, "10.0.0.1:80": false, "example.com:80": false, "": false,
	} {
		if got := listen.Loopback(); got != want {
			t.Errorf("%s: %t", listen, got)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	large := filepath.Join(t.TempDir(), "large.yaml")
	must(t, os.WriteFile(large, bytes.Repeat([]byte("#"), maxFile+1), 0o600))
	for file, want := range map[string]string{
		"no-such-file.yaml": "no-such-file.yaml: the file cannot be read: no such file or directory",
		"testdata":          "testdata: is not a regular file",
		large:               large + ": the file is larger than 1048576 bytes",
	} {
		if _, err := Load(file, nil); err == nil || err.Error() != want {
			t.Errorf("Load(%s): %v; want %s", file, err, want)
		}
	}
}

func TestNothingShowsASecret(t *testing.T) {
	t.Parallel()
	c, err := Parse("c.yaml", []byte(`
redis:
  address: {master: m, sentinels: ["h:1"]}
  password: `+canary+`
  sentinel_password: `+canary+`
limits: {redis: {address: "h:2", password: `+canary+`}}
apps: {demo: {simulated: true}}
`), nil)
	must(t, err)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "config", c, "redis", c.Redis, "password", c.Redis.Password)
	slog.New(slog.NewTextHandler(&log, nil)).Info("start", "config", *c, "password", &c.Redis.Password)
	for _, text := range []string{
		log.String(), c.String(), fmt.Sprint(c.Shown()),
		fmt.Sprintf("%v %+v %#v %s", c.Redis, c.Redis, c.Redis, c.Redis.Password),
		fmt.Sprintf("%v %+v %#v", *c, *c, *c),
	} {
		if strings.Contains(text, canary) {
			t.Errorf("a secret shows in %s", text)
		}
	}
	if !strings.Contains(log.String(), "sentinels") || !strings.Contains(log.String(), "simulated") {
		t.Errorf("the log does not describe the configuration: %s", log.String())
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, file := range append(files, "testdata/full.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), "PUSHPACE_REDIS__DB=3")
	}
	f.Add("redis: {address: embedded}", "PUSHPACE_APPS__A_B__FCM__TIMEOUT=1s")
	f.Fuzz(func(t *testing.T, data, entry string) {
		c, err := Parse("testdata/c.yaml", []byte(data), []string{entry})
		if (c == nil) == (err == nil) {
			t.Fatalf("Parse: %v, %v", c, err)
		}
		if c != nil && c.Validate() != nil {
			t.Fatalf("Parse returns what Validate refuses: %v", c.Validate())
		}
	})
}

// A configuration without apps, limits or real sending causes a warning. So does a bound of dead
// letters that can reach http.max_queue, where they count: the API would refuse all apps.
func TestOddConfigurationCausesWarning(t *testing.T) {
	t.Parallel()
	const apps, none = "c.yaml: apps: there is none: nothing can be sent", "c.yaml: limits: there is none: every notification is sent at once"
	const whole = "limits: {default: {min_gap: 1s}}\napps: {a: {simulated: true}}\n"
	letters := func(key, each, all string) []string {
		return []string{"c.yaml:4:" + key + ": counts dead letters: at worker.dead_letters, " + each + ", those of all apps are " + all +
			", and the API takes no more notifications; lower worker.dead_letters or raise http.max_queue"}
	}
	for text, want := range map[string][]string{
		"":                                 {apps, none},
		"apps: {a: {simulated: true}}":     {none},
		"limits: {default: {min_gap: 1s}}": {apps},
		"limits: {categories: {a: {exempt: true}}}":                                                                 {apps},
		"limits: {horizon: 2d, device: {rate: 5/1d}}":                                                               {apps},
		"limits: {default: {min_gap: 1s}}\napps: {shop: {fcm: {credentials_file: testdata/secret, dry_run: true}}}": {"c.yaml:3:65: apps.shop.fcm.dry_run: is on: nothing that the app sends there reaches a device"},
		whole + "http: {listen: ':8080'}":                                                                           nil,
		whole + "http: {listen: ':8080', max_queue: 20001}":                                                         nil,
		whole + "http: {listen: ':8080', max_queue: 20000}":                                                         letters("36: http.max_queue", "10000", "20000"),
		whole + "http: {max_queue: 20000}":                                                                          nil, // no API
		whole + "http: {listen: ':8080'}\nworker: {dead_letters: 500000}":                                           letters("1: http.max_queue", "500000", "1000000"),
		"limits: {horizon: 1d}\napps: {a: {simulated: true}}":                                                       {"c.yaml:2:1: limits: there is none: every notification is sent at once"},
	} {
		cfg, err := Parse("c.yaml", []byte("\ufeffredis: {address: embedded}\n"+text+"\n"), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !slices.Equal(cfg.Warnings(), want) {
			t.Errorf("%s: %q, want %q", text, cfg.Warnings(), want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
