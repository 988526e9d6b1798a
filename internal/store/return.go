package store

import (
	"encoding/json"
	"slices"
	"time"
)

// A Return is why a job goes back to its queue, and after how long it is due again. The zero value
// is that of a job that has never returned.
type Return struct {
	Why Why `json:"why"`
	// Key is the quota or the device's limit that Why is about.
	Key string `json:"key,omitempty"`
	// Detail is the rate of the quota, or the text of an error.
	Detail string `json:"detail,omitempty"`
	// Quiet is when quiet hours end, by the user's clock, that its user is in or will be by
	// its slot; zero for none. It is of what is Deferred.
	Quiet time.Time `json:"quiet,omitzero"`
	// First is when the first attempt was, or would have been of what was LeftAlone; zero
	// before.
	First time.Time `json:"first,omitzero"`
	// After is after how long it comes back, by Redis's clock, from that instant on, which is
	// by this machine's; zero for when it goes back.
	After time.Duration `json:"after,omitempty"`
	Since time.Time     `json:"since,omitzero"`
	// Failed counts a failure of the job. The next visit then reads the notification's record.
	Failed bool `json:"-"`
}

// Left is after how long the job comes back, counted from now.
func (r *Return) Left(now time.Time) time.Duration {
	if r.Since.IsZero() {
		return r.After
	}
	return max(0, r.After-max(0, now.Sub(r.Since)))
}

// A Why is why a job returns, from a closed set.
type Why string

// The reasons.
const (
	Deferred        Why = "deferred"         // one of its user's limits, or its producer, has it wait
	Retried         Why = "retried"          // an attempt has failed
	ProviderBusy    Why = "provider_busy"    // the provider has no room for it
	ProviderPaused  Why = "provider_paused"  // its route is closed, by trouble or by an operator
	OverQuota       Why = "over_quota"       // the quota Key has nothing left
	Unmetered       Why = "unmetered"        // nobody knows what is left of the quota Key
	OverDevice      Why = "over_device"      // the limit Key of its device
	DeviceUnmetered Why = "device_unmetered" // nobody knows what its device may get
	LeftAlone       Why = "left_alone"       // its server is out of order, and is left alone
	LimiterAway     Why = "limiter_away"     // the limits' Redis does not answer
	Unchecked       Why = "unchecked"        // its user's limits cannot be checked
	RedisRefuses    Why = "redis_refuses"    // Redis refuses to write
	TooLate         Why = "too_late"         // the machine is too busy to send it on time
	Unrecorded      Why = "unrecorded"       // it was sent, and that is not recorded
	Failed          Why = "failed"           // something of ours does not answer
	Panicked        Why = "panicked"         // there was a panic over it
	Crashed         Why = "crashed"          // its worker was dead or has stopped
	Crowded         Why = "crowded"          // it is parked behind others of its user, whose line is full
	Unreadable      Why = "unreadable"       // another version has put it off
)

// Whys are all of them.
var Whys = []Why{
	Deferred, Retried, ProviderBusy, ProviderPaused, OverQuota, Unmetered, OverDevice, DeviceUnmetered, LeftAlone, LimiterAway,
	Unchecked, RedisRefuses, TooLate, Unrecorded, Failed, Panicked, Crashed, Crowded, Unreadable,
}

// text is what a job keeps of its last Return.
func (r *Return) text() string {
	kept, _ := json.Marshal(r) // which fails for no Return
	return string(kept)
}

// readReturn reads what a job keeps.
func readReturn(kept string) (r Return) {
	if kept == "" {
		return r
	}
	if err := json.Unmarshal([]byte(kept), &r); err != nil || !slices.Contains(Whys, r.Why) {
		return Return{Why: Unreadable}
	}
	return r
}

// Again is after how long a job returns for a reason of ours that may pass.
const Again = 2 * time.Second
