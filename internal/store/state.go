package store

// A Platform is a push service.
type Platform string

// A State is the state of a notification.
type State string

// Every accepted notification is Waiting until it ends in exactly one other state.
const (
	Waiting       State = "waiting"
	Delivered     State = "delivered"     // at least one target's provider took it
	Undeliverable State = "undeliverable" // every target's token is dead
	Rejected      State = "rejected"      // refused for good: payload, app or configuration
	Exhausted     State = "exhausted"     // attempts or retry time used up
	Expired       State = "expired"
	Cancelled     State = "cancelled"
	Superseded    State = "superseded"
	Muted         State = "muted"    // its app, user, category or a combination of these is muted
	Digested      State = "digested" // included in a carrier's push
)

// EndStates are the states in which a notification can end.
var EndStates = []State{Delivered, Undeliverable, Rejected, Exhausted, Expired, Cancelled, Superseded, Muted, Digested}

// Ended reports whether s is one of EndStates.
func (s State) Ended() bool { return s != "" && s != Waiting }

// Dead reports whether a notification in this state leaves a dead letter.
func (s State) Dead() bool { return s == Rejected || s == Exhausted }
