package throttle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle/quiet"
)

func TestParseRate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want Rate
		back string
	}{
		{"10/1m", Rate{10, time.Minute}, "10/1m"},
		{"1/1440m", Rate{1, 24 * time.Hour}, "1/24h"},
		{"5/1d", Rate{5, 24 * time.Hour}, "5/24h"},
		{"1/90m", Rate{1, 90 * time.Minute}, "1/1h30m"},
		{"1/1h30s", Rate{1, time.Hour + 30*time.Second}, "1/1h0m30s"},
		{"1/10s", Rate{1, 10 * time.Second}, "1/10s"},
		{"1/10m", Rate{1, 10 * time.Minute}, "1/10m"},
		{"1/10h", Rate{1, 10 * time.Hour}, "1/10h"},
		{"1/1ms", Rate{1, time.Millisecond}, "1/1ms"},
		{"1/1001us", Rate{1, 1001 * time.Microsecond}, "1/1.001ms"},
		{"1000000/1s", Rate{1_000_000, time.Second}, "1000000/1s"},
	} {
		got, err := ParseRate(tt.text)
		if err != nil || got != tt.want || got.String() != tt.back {
			t.Errorf("ParseRate(%q) = %v, %v; want %v", tt.text, got, err, tt.back)
		}
		written, _ := got.MarshalText()
		var read Rate
		if err := read.UnmarshalText(written); err != nil || read != got {
			t.Errorf("%s reads as %v, %v", written, read, err)
		}
	}
}

func TestParseRateRejectsInvalidText(t *testing.T) {
	t.Parallel()
	for text, fault := range map[string]string{
		"":                                      "no slash",
		"10":                                    "no slash",
		"/1m":                                   "count is not a whole number",
		"-1/1m":                                 "count is negative",
		"+1/1m":                                 "count is not a whole number",
		"0/1m":                                  "count is not positive",
		"99999999999999999999/1m":               "count is too large",
		"10/":                                   "period is not a duration",
		"10/1m/2":                               "period is not a duration",
		"10/m":                                  "period is not a duration",
		"10/0s":                                 "period is not positive",
		"10/-1m":                                "period is not positive",
		"10/1000500ns":                          "whole microseconds",
		"x" + strings.Repeat("y", 1000) + "/1m": "count is not a whole number",
	} {
		_, err := ParseRate(text)
		if err == nil {
			t.Errorf("ParseRate(%q) is accepted", text)
			continue
		}
		msg := err.Error()
		if !strings.Contains(msg, fault) || !strings.Contains(msg, "want COUNT/PERIOD") {
			t.Errorf("ParseRate(%q): %v; want %q", text, err, fault)
		}
		if len(msg) > 300 {
			t.Errorf("ParseRate(%.20q…): the message is %d bytes long", text, len(msg))
		}
	}
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"10/1m", "1/24h", "10/0s", "-1/1m", "ten/1m", "10/", "/1m", "10/1m/2", "1/1h1ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			if r != (Rate{}) || r.UnmarshalText([]byte(s)) == nil {
				t.Errorf("ParseRate(%q) = %v with an error", s, r)
			}
			return
		}
		if err := (Policy{Rates: []Rate{r}}).Validate(r.Period); err != nil {
			t.Errorf("ParseRate(%q) is accepted, Validate says %v", s, err)
		}
		if again, err := ParseRate(r.String()); err != nil || again != r {
			t.Errorf("ParseRate(%q) = %v, which reads as %v, %v", s, r, again, err)
		}
	})
}

func TestPolicyValidate(t *testing.T) {
	t.Parallel()
	nine := make([]Rate, 9)
	for i := range nine {
		nine[i] = Rate{1, time.Duration(i+1) * time.Second}
	}
	for _, tt := range []struct {
		name   string
		policy Policy
		want   []string // what the error says; none for a valid policy
	}{
		{"zero", Policy{}, nil},
		{"exempt", Policy{Exempt: true}, nil},
		{"gap and rates", Policy{MinGap: time.Second, Rates: []Rate{{10, time.Minute}, {100, 24 * time.Hour}}}, nil},
		{"gap as long as the horizon", Policy{MinGap: 24 * time.Hour}, nil},
		{"eight rates", Policy{Rates: nine[:8]}, nil},
		{"exempt with a gap", Policy{Exempt: true, MinGap: 1000}, []string{"exempt: excludes"}},
		{"exempt with quiet hours", Policy{Exempt: true, Quiet: hoursOf(t, "22:00-08:00")}, []string{"exempt: excludes"}},
		{"quiet hours", Policy{Quiet: hoursOf(t, "22:00-08:00", "Sa-Su 22:00-10:00")}, nil},
		{"no quiet hours", Policy{Quiet: quiet.Hours{}}, nil},
		{"many quiet hours", Policy{Quiet: make(quiet.Hours, 17)}, []string{"quiet_hours: there are 17 windows of quiet hours; at most 16 are allowed"}},
		{"quiet hours twice", Policy{Quiet: slices.Repeat(hoursOf(t, "22:00-08:00"), 2)}, []string{`quiet_hours: quiet_hours "22:00-08:00" is there twice`}},
		{"negative gap", Policy{MinGap: -time.Second}, []string{"min_gap: -1s is negative"}},
		{"gap with nanoseconds", Policy{MinGap: 1500}, []string{"whole microseconds"}},
		{"gap beyond the horizon", Policy{MinGap: 25 * time.Hour}, []string{"min_gap: 25h is longer than the horizon, 24h"}},
		{"nine rates", Policy{Rates: nine}, []string{"rates: there are 9; at most 8"}},
		{"period beyond the horizon", Policy{Rates: []Rate{{1, 48 * time.Hour}}}, []string{"1/48h has a longer period"}},
		{"same period", Policy{Rates: []Rate{{1, time.Minute}, {2, time.Minute}}}, []string{"1/1m and 2/1m have the same period"}},
		{"a million a second", Policy{Rates: rates(t, "1000000/1s")}, []string{"rates: 1000000/1s allows more than 1000 a second"}},
		{"two in a millisecond", Policy{Rates: rates(t, "2/1ms")}, []string{"rates: 2/1ms allows more than 1000 a second"}},
		{"a thousand a second", Policy{Rates: rates(t, "1000/1s")}, nil},
		{"a thousand a day", Policy{Rates: rates(t, "1000/24h")}, nil},
		{"more than a user's most", Policy{Rates: rates(t, "1001/24h")}, []string{"rates: 1001/24h counts more than 1000, the most of one user: give a smaller count"}},
		{"short gap", Policy{MinGap: time.Microsecond}, []string{"min_gap: 1µs is shorter than 1ms"}},
		{"shortest gap", Policy{MinGap: time.Millisecond}, nil},
		{"gap beyond the period", Policy{MinGap: time.Hour, Rates: rates(t, "10/1m")}, []string{"min_gap: 1h is longer than every rate's period"}},
		{"gap beyond both periods", Policy{MinGap: time.Hour, Rates: rates(t, "10/1m", "20/59m")}, []string{"min_gap: 1h is longer than every rate's period"}},
		{"gap beyond one period", Policy{MinGap: time.Hour, Rates: rates(t, "10/1m", "20/24h")}, nil},
		{"gap alone", Policy{MinGap: time.Hour}, nil},
		{"several", Policy{MinGap: -1000, Rates: []Rate{{0, time.Second}, {1, 48 * time.Hour}}},
			[]string{"negative", "count is not positive", "1/48h has a longer period"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.policy.Validate(24 * time.Hour)
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("Validate: %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Validate: %v; want %q", err, want)
				}
			}
		})
	}
}

func TestPolicyString(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Policy{
		"no limit": {}, "exempt": {Exempt: true}, "1m apart": {MinGap: time.Minute},
		"500ms apart, 10/1m, 100/24h":                    {MinGap: 500 * time.Millisecond, Rates: []Rate{{10, time.Minute}, {100, 24 * time.Hour}}},
		"1m apart, quiet 22:00-08:00, Sa,Su 12:00-14:00": {MinGap: time.Minute, Quiet: hoursOf(t, "22:00-08:00", "Sa,Su 12:00-14:00")},
		"no quiet hours":                                 {Quiet: quiet.Hours{}},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
