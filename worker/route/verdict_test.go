package route

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

func retry(concerns providers.Concern, reason providers.Reason) providers.Outcome {
	return providers.Outcome{Kind: providers.Retry, Concerns: concerns, Reason: reason, Err: errors.New("why")}
}

func misconfigured(concerns providers.Concern, reason providers.Reason) providers.Outcome {
	return providers.Outcome{Kind: providers.Misconfigured, Concerns: concerns, Reason: reason, Err: errors.New("why")}
}

var (
	ok           = providers.Outcome{Kind: providers.Delivered, Reason: providers.OK}
	badMessage   = providers.Outcome{Kind: providers.Rejected, Concerns: providers.ConcernsMessage, Reason: "PayloadTooLarge"}
	deadToken    = providers.Outcome{Kind: providers.DeadToken, Concerns: providers.ConcernsToken, Reason: "Unregistered", Err: errors.New("why")}
	otherTopic   = providers.Outcome{Kind: providers.Rejected, Concerns: providers.ConcernsToken, Reason: "DeviceTokenNotForTopic", Err: errors.New("why")}
	badKey       = misconfigured(providers.ConcernsCredential, "InvalidProviderToken")
	thirdParty   = misconfigured(providers.ConcernsApp, "THIRD_PARTY_AUTH_ERROR")
	voipTopic    = providers.Outcome{Kind: providers.Misconfigured, Concerns: providers.ConcernsApp, Reason: "TopicDisallowed", Topic: "com.example.voip"}
	overQuota    = retry(providers.ConcernsApp, "QUOTA_EXCEEDED")
	tokenUpdates = retry(providers.ConcernsCredential, "TooManyProviderTokenUpdates")
	busyDevice   = retry(providers.ConcernsToken, "TooManyRequests")
	serverError  = retry(providers.ConcernsProvider, "ServiceUnavailable")
	gaveUp       = retry(providers.ConcernsProvider, providers.Cancelled)
	unreachable  = providers.Outcome{Kind: providers.Retry, Concerns: providers.ConcernsProvider, Reason: providers.DialFailed, NotSent: true}
)

// A mix is n answers of one kind to the given number of tokens in turn; with 0 tokens each answer has its
// own token.
type mix struct {
	n      int
	o      providers.Outcome
	tokens int
}

// interleave returns the answers of all mixes, evenly interleaved.
func interleave(mixes []mix) (all []mix) {
	total := 0
	for _, m := range mixes {
		total += m.n
	}
	given := make([]int, len(mixes))
	for i := range total {
		next := 0
		for j, m := range mixes {
			if (i+1)*m.n-given[j]*total > (i+1)*mixes[next].n-given[next]*total {
				next = j
			}
		}
		given[next]++
		all = append(all, mixes[next])
	}
	return all
}

// TestAnswersDecideWhetherRouteCloses lists mixes of answers that close the route, and mixes that do not. The
// answers of one step are interleaved.
func TestAnswersDecideWhetherRouteCloses(t *testing.T) {
	t.Parallel()
	const rare, busy = 4 * time.Second, 10 * time.Millisecond // between two answers
	for _, c := range []struct {
		name   string
		every  time.Duration
		steps  [][]mix
		closes bool
	}{
		{"one refused key", rare, [][]mix{{{1, badKey, 0}}}, false},
		{"one refused key again and again", rare, [][]mix{{{30, badKey, 1}}}, false},
		{"one third party among deliveries", rare, [][]mix{{{10, ok, 0}, {1, thirdParty, 1}}}, false},
		{"one third party, refused at each retry", busy, [][]mix{{{100, ok, 0}, {20, thirdParty, 1}}}, false},
		{"a third of the tokens at a third party", busy, [][]mix{{{400, ok, 0}, {200, thirdParty, 0}}}, false},
		{"two of three tokens at a third party", busy, [][]mix{{{200, ok, 0}, {400, thirdParty, 0}}}, false},
		{"three tokens with a refused key, nothing delivered", rare, [][]mix{{{3, badKey, 0}}}, true},
		{"three tokens just after a delivery", busy, [][]mix{{{1, ok, 0}}, {{3, badKey, 0}}}, false},
		{"a key revoked in full flow", busy, [][]mix{{{2000, ok, 0}}, {{20, badKey, 0}}}, true},
		{"one topic that only calls have", rare, [][]mix{{{20, voipTopic, 0}}}, false},
		{"one refused provider token update", busy, [][]mix{{{50, ok, 0}}, {{1, tokenUpdates, 0}}, {{50, ok, 0}}}, false},
		{"one answer over quota", rare, [][]mix{{{1, overQuota, 0}}}, false},
		{"three tokens over quota, nothing delivered", rare, [][]mix{{{3, overQuota, 0}}}, true},
		{"most over quota, some delivered", busy, [][]mix{{{20, ok, 0}, {60, overQuota, 0}}}, true},
		{"some over quota", busy, [][]mix{{{600, ok, 0}, {300, overQuota, 0}}}, false},
		{"one device with too many", busy, [][]mix{{{40, busyDevice, 1}}}, false},
		{"four devices with too many, nothing else", rare, [][]mix{{{40, busyDevice, 4}}}, false},
		{"every device with too many", rare, [][]mix{{{12, busyDevice, 0}}}, true},
		{"every device with too many, in full flow", busy, [][]mix{{{2000, ok, 0}}, {{20, busyDevice, 0}}}, true},
		{"a third of the devices with too many", busy, [][]mix{{{200, ok, 0}, {100, busyDevice, 0}}}, false},
		{"one token that the provider fails on", busy, [][]mix{{{10, ok, 0}, {30, serverError, 1}}}, false},
		{"one token that the provider fails on, nine times in a row", busy, [][]mix{{{9, serverError, 1}}}, false},
		{"an app of one token that the provider fails on", busy, [][]mix{{{10, serverError, 1}}}, true},
		{"some failures", busy, [][]mix{{{100, ok, 0}, {40, serverError, 0}}}, false},
		{"most fail", busy, [][]mix{{{30, ok, 0}, {60, serverError, 0}}}, true},
		{"all fail, in full flow", busy, [][]mix{{{2000, ok, 0}}, {{20, serverError, 0}}}, true},
		{"it cannot be reached, for one token", rare, [][]mix{{{3, unreachable, 1}}}, true},
		{"callers gave up", rare, [][]mix{{{30, gaveUp, 0}}}, false},
		{"bad messages alone", rare, [][]mix{{{300, badMessage, 0}}}, false},
		{"bad messages and failures", busy, [][]mix{{{100, badMessage, 0}, {80, serverError, 0}}}, false},
		{"an old list", busy, [][]mix{{{60, ok, 0}, {50, deadToken, 0}}}, false},
		{"100 dead tokens", busy, [][]mix{{{100, deadToken, 0}}}, true},
		{"one dead token sent to again and again", busy, [][]mix{{{200, deadToken, 1}}}, false},
		{"most dead", busy, [][]mix{{{60, ok, 0}, {90, deadToken, 0}}}, true},
		{"most of another topic", busy, [][]mix{{{60, ok, 0}, {90, otherTopic, 0}}}, true},
		{"dead tokens and busy devices, each less than half", busy, [][]mix{{{40, ok, 0}, {70, deadToken, 0}, {70, busyDevice, 0}}}, false},
	} {
		var e evidence
		now, closed, token := time.Unix(1_795_219_200, 0), false, 0
		for _, step := range c.steps {
			for _, m := range interleave(step) {
				now = now.Add(c.every)
				token++
				name := fmt.Sprint("token-", token)
				if m.tokens > 0 {
					name = fmt.Sprint(m.o.Reason, token%m.tokens)
				}
				l := e.take(now, &m.o, classOf(&m.o), subjectOf(push.Target{Platform: push.FCM, Token: name}, m.o.Topic), true)
				closed = closed || l.Trouble
			}
		}
		if closed != c.closes {
			t.Errorf("%s: closes the route: %t", c.name, closed)
		}
	}
}

// The answer to a probe decides whether a closed route reopens: an answer of the same class confirms the
// trouble.
func TestProbeAnswerDecidesWhetherRouteReopens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause, probe providers.Outcome
		want         shows
		trouble      bool
	}{
		"delivered":                      {badKey, ok, works, false},
		"a bad message":                  {badKey, badMessage, works, false},
		"the same":                       {badKey, badKey, fails, true},
		"the same class":                 {badKey, thirdParty, fails, true},
		"another refusal in an outage":   {serverError, thirdParty, unclear, false},
		"a failure while the key is bad": {badKey, serverError, fails, true},
		"a dead token in an outage":      {serverError, deadToken, works, false},
		"a busy device while all are":    {busyDevice, busyDevice, fails, true},
		"the caller gave up":             {serverError, gaveUp, unclear, false},
	} {
		e := evidence{cause: classOf(&c.cause)}
		l := e.take(time.Unix(1_795_219_200, 0), &c.probe, classOf(&c.probe), 1, false)
		if l.shows != c.want || l.Trouble != c.trouble {
			t.Errorf("%s: shows %d, trouble %t; want %d, %t", name, l.shows, l.Trouble, c.want, c.trouble)
		}
	}
}

// A throttled device confirms a delay that another worker has shared, because most devices may be
// throttled. It does not confirm that the app's key is refused.
func TestThrottledProbeConfirmsSharedDelay(t *testing.T) {
	t.Parallel()
	shared, own := evidence{}, evidence{cause: refused}
	shared.adoptDelay()
	now := time.Unix(1_795_219_200, 0)
	if l := shared.take(now, &busyDevice, throttled, 1, false); l.shows != fails || !l.Trouble {
		t.Errorf("under a shared delay: %+v", l)
	}
	if l := own.take(now, &busyDevice, throttled, 1, false); l.shows != works || l.Trouble {
		t.Errorf("while the key is refused: %+v", l)
	}
	shared.clearTrouble()
	if l := shared.take(now, &busyDevice, throttled, 1, true); l.Trouble {
		t.Errorf("after the delay: %+v", l)
	}
}

// The reported trouble counts the failed answers and all answers.
func TestTroubleCountsAnswers(t *testing.T) {
	t.Parallel()
	var e evidence
	began := time.Unix(1_795_219_200, 0)
	now := began
	answer := func(o providers.Outcome, token subject, open bool) {
		now = now.Add(time.Second)
		e.take(now, &o, classOf(&o), token, open)
	}
	for i := range subject(3) {
		answer(ok, 100+i, true)
	}
	for i := range subject(5) {
		answer(busyDevice, i, true)
	}
	got := e.trouble()
	if got.Reason != busyDevice.Reason || got.Failures != 5 || got.Answers != 8 || !got.Since.Equal(began.Add(4*time.Second)) {
		t.Errorf("%+v", got)
	}
	answer(ok, 200, false)
	answer(busyDevice, 5, false)
	if got := e.trouble(); got.Failures != 6 || got.Answers != 10 {
		t.Errorf("%d of %d while closed", got.Failures, got.Answers)
	}
	if !e.suspects(5) || e.suspects(100) {
		t.Error("the failed tokens are not suspects")
	}
	e.clearTrouble()
	if got := e.trouble(); got != (Trouble{}) || e.suspects(5) {
		t.Errorf("after a probe that worked: %+v", got)
	}
}

// A route closed for one trouble stays closed for a second trouble that several tokens show.
func TestClosedRouteStaysClosedForSecondTrouble(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]class{"an outage": failed, "an operator who has it tried again": silent} {
		e := evidence{cause: cause}
		now := time.Unix(1_795_219_200, 0)
		for i := range subject(several) {
			want := unclear
			if i == several-1 {
				want = fails
			}
			if l := e.take(now, &badKey, refused, i, false); l.shows != want || l.Trouble != (want == fails) {
				t.Errorf("%s: the answer to token %d: %+v", name, i, l)
			}
		}
		if got := e.trouble(); got.Reason != badKey.Reason || e.cause != refused {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A spike ends when at most half of the answers since its beginning are dead tokens, and not at the first
// delivery.
func TestSpikeEndsWithHalfDeadTokens(t *testing.T) {
	t.Parallel()
	var e evidence
	now, token := time.Unix(1_795_219_200, 0), subject(0)
	take := func(o providers.Outcome, n int) (last bool) {
		for range n {
			token++
			last = e.take(now, &o, classOf(&o), token, true).Trouble
		}
		return last
	}
	if !take(deadToken, 100) {
		t.Fatal("no spike begins")
	}
	e.clearTrouble() // a probe was delivered
	now = now.Add(time.Hour)
	if take(ok, 10); !take(deadToken, 9) {
		t.Error("the spike ends after 19 answers")
	}
	if take(deadToken, 1) {
		t.Error("the spike lasts after 20 answers, half of them dead tokens")
	}
	if take(deadToken, 99) {
		t.Error("another spike begins after fewer than 100 answers")
	}
	if !take(deadToken, 1) {
		t.Error("no other spike begins")
	}
	e.reset()
	if take(deadToken, 1) {
		t.Error("the spike lasts after an operator's resume")
	}
}
