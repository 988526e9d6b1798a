// Package reasons lists the states, causes and reasons that there are: the words
// that status, dead letters, logs and metrics use. docs/reasons.md explains each.
package reasons

import (
	"github.com/pushpace/pushpace/internal/redisreply"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// A Set is a closed set of words.
type Set struct {
	// Title is its heading in docs/reasons.md.
	Title string
	Words []string
}

// Sets answers all of them.
func Sets() []Set {
	states := append([]push.State{push.Waiting}, push.EndStates...)
	kinds := []providers.Kind{providers.Delivered, providers.DeadToken, providers.Retry, providers.Rejected, providers.Misconfigured}
	outcomes := make([]string, len(kinds))
	for i, kind := range kinds {
		outcomes[i] = kind.String()
	}
	return []Set{
		{"States", words(append(states, push.Malformed))},
		{"What a notification waits for", words(control.Causes)},
		{"Outcomes of a target", outcomes},
		{"Reasons of pushpace", words(providers.Reasons())},
		{"Reasons of APNs", words(apns.Reasons())},
		{"Reasons of FCM", words(fcm.Reasons())},
		{"Reasons of malformed jobs", words(push.MalformedReasons)},
		{"Troubles of Redis", words(redisreply.Troubles)},
	}
}

func words[T ~string](all []T) []string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = string(one)
	}
	return texts
}
