package store

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOutcomesRoundTrip(t *testing.T) {
	t.Parallel()
	delivered := TargetOutcome{Platform: "fcm", TokenEnd: "a1b2c3", Kind: "delivered", Reason: "ok", ProviderID: "projects/shop/messages/0:1500415314455276%31bd1c9631bd1c96"}
	unsent := TargetOutcome{Platform: "apns", TokenEnd: "00fcab"}
	fid := TargetOutcome{Platform: "fcm", FIDEnd: "w9sLpA", Kind: "delivered"}
	unsentFID := TargetOutcome{Platform: "fcm", FIDEnd: "w9sLpA", Ambiguous: true}
	unclear := TargetOutcome{Platform: "apns", Kind: "retry", Reason: "timeout", Ambiguous: true}
	for _, outcomes := range [][]TargetOutcome{nil, {delivered}, {unsent}, {unclear}, {{}}, {{}, {}}, {delivered, unsent, unclear, delivered}, {unsent, {}, unclear}, {fid, delivered}, {unsentFID}} {
		words, ids := encodeOutcomes(outcomes)
		if got, err := decodeOutcomes(words, ids); err != nil || !slices.Equal(got, outcomes) {
			t.Errorf("%+v became %+v: %v", outcomes, got, err)
		}
	}
	// a provider's ID is stored only if it is short and cannot break the encoding
	for _, id := range []string{strings.Repeat("x", longestProviderID+1), "a\nb", "a b", "ü"} {
		hostile := delivered
		hostile.ProviderID = id
		words, ids := encodeOutcomes([]TargetOutcome{hostile, delivered})
		if got, err := decodeOutcomes(words, ids); err != nil || got[0].ProviderID != "" || got[1] != delivered {
			t.Errorf("%q: %+v, %v", id, got, err)
		}
	}
	if words, _ := encodeOutcomes([]TargetOutcome{fid}); words != "delivered fcm fid:w9sLpA" {
		t.Errorf("a FID is stored as %q", words)
	}
	if _, err := decodeOutcomes("delivered fcm a1b2c3 ok ambiguous more", ""); err == nil {
		t.Error("an outcome with too many words is read")
	}
}

// readReturn reads stored Returns, and rejects other text.
func TestReadReturnRejectsOtherText(t *testing.T) {
	t.Parallel()
	for _, why := range WaitReasons {
		want := Return{Why: why, Key: "apns/shop", Detail: "wrong \"type\": <&>\n", After: 9123456 * time.Microsecond, First: time.Date(2026, 11, 20, 19, 0, 0, 0, time.UTC)}
		sent := want
		sent.Failed = true
		if got := readReturn(sent.text()); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for kept, want := range map[string]WaitReason{
		"":                               "",
		"deferred, back in 3s":           Unreadable,
		"{}":                             Unreadable,
		`{"why":"of a later version"}`:   Unreadable,
		`{"why":"deferred","after":"1"}`: Unreadable,
		`{"why":"deferred"`:              Unreadable,
		"null":                           Unreadable,
	} {
		if got := readReturn(kept); got != (Return{Why: want}) {
			t.Errorf("%q: %+v, want %q", kept, got, want)
		}
	}
}
