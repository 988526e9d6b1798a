package store

import (
	"encoding/json"
	"slices"
	"time"
)

// A Return is the reason why a job goes back to its queue, and the delay until it is due again. The
// zero value belongs to a job that has never returned.
type Return struct {
	Why WaitReason `json:"why"`
	// Key is the quota or the device limit that Why refers to.
	Key string `json:"key,omitempty"`
	// Detail is the rate of the quota, or the text of an error.
	Detail string `json:"detail,omitempty"`
	// Quiet is the end of the user's quiet hours now or at the slot, by the user's clock; zero for
	// none. Only if Why is Deferred.
	Quiet time.Time `json:"quiet,omitzero"`
	// First is when the first attempt was made, or skipped as LeftAlone; zero before.
	First time.Time `json:"first,omitzero"`
	// After is the delay by Redis's clock. It counts from Since, which is by this machine's clock;
	// a zero Since means the instant at which the job goes back.
	After time.Duration `json:"after,omitempty"`
	Since time.Time     `json:"since,omitzero"`
	// Failed adds a failure to the job. Then the next worker reads the record.
	Failed bool `json:"-"`
}

// Left returns the delay that remains, counted from now.
func (r *Return) Left(now time.Time) time.Duration {
	if r.Since.IsZero() {
		return r.After
	}
	return max(0, r.After-max(0, now.Sub(r.Since)))
}

// A WaitReason is the reason why a job returns, from a closed set.
type WaitReason string

const (
	Deferred        WaitReason = "deferred"         // one of its user's limits, or its producer, delays it
	Retried         WaitReason = "retried"          // an attempt has failed
	ProviderBusy    WaitReason = "provider_busy"    // the provider has no room for it
	ProviderPaused  WaitReason = "provider_paused"  // its route is closed by an error state or an operator
	OverQuota       WaitReason = "over_quota"       // the quota Key has nothing left
	Unmetered       WaitReason = "unmetered"        // the rest of the quota Key is unknown
	OverDevice      WaitReason = "over_device"      // its device has reached the limit Key
	DeviceUnmetered WaitReason = "device_unmetered" // its device's limits cannot be checked
	LeftAlone       WaitReason = "left_alone"       // a target's server fails, so nothing is sent there for now
	LimiterAway     WaitReason = "limiter_away"     // the limits' Redis does not answer
	Unchecked       WaitReason = "unchecked"        // its user's limits cannot be checked
	RedisRefuses    WaitReason = "redis_refuses"    // Redis refuses to write
	TooLate         WaitReason = "too_late"         // the machine is too busy to send it on time
	Unrecorded      WaitReason = "unrecorded"       // it was sent, but the result could not be recorded
	Failed          WaitReason = "failed"           // an internal error
	Panicked        WaitReason = "panicked"         // processing it panicked
	Crashed         WaitReason = "crashed"          // its worker died or stopped
	Crowded         WaitReason = "crowded"          // it is parked, as its user's queue is full
	Unreadable      WaitReason = "unreadable"       // a different version wrote its last Return
)

// WaitReasons lists all reasons.
var WaitReasons = []WaitReason{
	Deferred, Retried, ProviderBusy, ProviderPaused, OverQuota, Unmetered, OverDevice, DeviceUnmetered, LeftAlone, LimiterAway,
	Unchecked, RedisRefuses, TooLate, Unrecorded, Failed, Panicked, Crashed, Crowded, Unreadable,
}

// text returns the stored form.
func (r *Return) text() string {
	kept, _ := json.Marshal(r) // a Return always encodes
	return string(kept)
}

// readReturn reads the stored form.
func readReturn(kept string) (r Return) {
	if kept == "" {
		return r
	}
	if err := json.Unmarshal([]byte(kept), &r); err != nil || !slices.Contains(WaitReasons, r.Why) {
		return Return{Why: Unreadable}
	}
	return r
}

// RetryDelay is the delay after an internal problem that may be temporary.
const RetryDelay = 2 * time.Second
