package store

import (
	"fmt"
	"strings"
)

// A TargetOutcome is the result of one target.
type TargetOutcome struct {
	Platform Platform `json:"platform,omitempty"`
	// TokenEnd is the end of the target's token, or FIDEnd that of its FID, to distinguish targets; for
	// Web Push, TokenEnd is the beginning of the endpoint's SHA-256.
	TokenEnd string `json:"token_end,omitempty"`
	FIDEnd   string `json:"fid_end,omitempty"`
	// Kind and Reason are the last recorded outcome of the target; "" if there is none.
	Kind   string `json:"kind,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Ambiguous is true if the provider may have taken the push: the answer was lost, or the worker
	// crashed while sending.
	Ambiguous bool `json:"ambiguous,omitempty"`
	// ProviderID is the provider's ID of the push: APNs' apns-id, FCM's message name, or the last
	// part of the push service's URL of the message.
	ProviderID string `json:"provider_id,omitempty"`
}

// Open reports whether a push to the target is still to be sent.
func (o *TargetOutcome) Open() bool {
	return o.Kind == "" || o.Kind == "retry" || o.Kind == "misconfigured"
}

// Taken reports whether the provider has taken the push, or may have.
func (o *TargetOutcome) Taken() bool { return o.Kind == "delivered" || o.Ambiguous }

// MarkAmbiguous returns the outcomes after an attempt that is not recorded: each open target becomes
// ambiguous. Without known outcomes it returns one ambiguous target.
func MarkAmbiguous(outcomes []TargetOutcome) []TargetOutcome {
	all := make([]TargetOutcome, max(1, len(outcomes)))
	copy(all, outcomes)
	for i := range all {
		all[i].Ambiguous = all[i].Ambiguous || all[i].Open()
	}
	return all
}

// A record stores outcomes as two texts with a line for each target: KIND PLATFORM END REASON
// AMBIGUOUS, where - stands for a missing value and missing values at the end are left out; and the
// providers' IDs. fidMark precedes the END of a FID. The texts are short, so that Redis stores
// the record of a single target in one allocation.
const fidMark = "fid:"

// longestProviderID bounds a stored provider's ID, in bytes.
const longestProviderID = 256

func encodeOutcomes(outcomes []TargetOutcome) (words, ids string) {
	var b strings.Builder
	b.Grow(32 * len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		line := [...]string{o.Kind, string(o.Platform), o.TokenEnd, o.Reason, ""}
		if o.FIDEnd != "" {
			line[2] = fidMark + o.FIDEnd
		}
		if o.Ambiguous {
			line[4] = "ambiguous"
		}
		n := len(line)
		for n > 1 && line[n-1] == "" {
			n--
		}
		for j, word := range line[:n] {
			if j > 0 {
				b.WriteByte(' ')
			}
			if word == "" {
				word = "-"
			}
			b.WriteString(word)
		}
	}
	if len(outcomes) == 1 {
		return b.String(), providerID(&outcomes[0])
	}
	lines := make([]string, len(outcomes))
	for i := range outcomes {
		lines[i] = providerID(&outcomes[i])
	}
	return b.String(), strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// providerID returns the provider's ID if it can be stored, or "".
func providerID(o *TargetOutcome) string {
	if len(o.ProviderID) > longestProviderID {
		return ""
	}
	for i := range len(o.ProviderID) {
		if c := o.ProviderID[i]; c <= ' ' || c > '~' {
			return ""
		}
	}
	return o.ProviderID
}

func decodeOutcomes(words, ids string) ([]TargetOutcome, error) {
	if words == "" && ids == "" {
		return nil, nil
	}
	lines := strings.Split(words, "\n")
	outcomes := make([]TargetOutcome, len(lines))
	for i, text := range lines {
		var line [5]string
		n := 0
		for word := range strings.FieldsSeq(text) {
			if n == len(line) {
				return nil, fmt.Errorf("the outcome of target %d has more than %d words", i+1, n)
			}
			if word != "-" {
				line[n] = word
			}
			n++
		}
		outcomes[i] = TargetOutcome{Kind: line[0], Platform: Platform(line[1]), TokenEnd: line[2], Reason: line[3], Ambiguous: line[4] != ""}
		if end, isFID := strings.CutPrefix(line[2], fidMark); isFID {
			outcomes[i].TokenEnd, outcomes[i].FIDEnd = "", end
		}
	}
	for i, id := range strings.Split(ids, "\n") {
		if i < len(outcomes) {
			outcomes[i].ProviderID = id
		}
	}
	return outcomes, nil
}
