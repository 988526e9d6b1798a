package operate

import (
	"maps"
	"slices"
	"strconv"

	"github.com/pushpace/pushpace/internal/base/near"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// Apps are those that the configuration has. Where they are nil, none is looked for.
type Apps map[string]App

// An App is what it says of one. The zero value sends to any platform and host.
type App struct {
	// Platforms are those that it sends to.
	Platforms []push.Platform
	// Hosts are those that endpoints of Web Push may be at, as push.HostAmong reads them.
	Hosts []string
}

// fault returns what is wrong with a target: it is on a platform, or at a host, that the app
// does not send to. An endpoint of a subscription that has ended is for the worker to report.
func (a App) fault(t push.Target) (f push.Fault, some bool) {
	if !slices.Contains(push.Platforms(), t.Platform) { // Validate says so
		return f, false
	}
	if a.Platforms != nil && !slices.Contains(a.Platforms, t.Platform) {
		return push.Fault{Field: "/platform", Problem: "is not one that the configuration gives the app"}, true
	}
	if t.Platform != push.PlatformWebPush || a.Hosts == nil {
		return f, false
	}
	endpoint, err := push.Endpoint(t.Token)
	if err != nil || endpoint.Host == push.RemovedHost || push.HostAmong(a.Hosts, endpoint.Host) {
		return f, false
	}
	return push.Fault{Field: "/token", Problem: "is at " + endpoint.Host + ", which is not among the hosts of the app's " + string(t.Platform)}, true
}

// Names returns the apps' names, sorted.
func (a Apps) Names() []string { return slices.Sorted(maps.Keys(a)) }

// Fault is what is wrong with an app's name, as the end of a sentence; "" when
// nothing is.
func (a Apps) Fault(name string) string {
	if _, known := a[name]; known || a == nil {
		return ""
	}
	return near.NoApp(name, a.Names())
}

// Categories are those that the configuration has.
func (o *Operator) Categories() []string { return o.s.with.Limits.Configured() }

// CategoryWarning is what is odd about a category's name; "" when nothing is.
func CategoryWarning(name string, configured []string) string {
	if name == "" || slices.Contains(configured, name) {
		return ""
	}
	return "category " + name + " is not configured" + near.Hint(name, configured)
}

// Warnings are what is odd about a notification that is taken: a category that the
// configuration does not have, where such are warned of.
func Warnings(n *push.Notification, policies *limits.Policies) []string {
	if policies.Unknown(n.Category) != limits.WarnUnknown {
		return nil
	}
	return []string{CategoryWarning(n.Category, policies.Configured())}
}

// UnknownNames returns what the notification names and the configuration does not have:
// its app, a target's platform or host, or, where unknown ones are refused, its category.
// What else is wrong with it, Validate says.
func UnknownNames(n *push.Notification, apps Apps, policies *limits.Policies) push.Faults {
	var f push.Faults
	if fault := apps.Fault(n.App); fault != "" && n.App != "" {
		f = append(f, push.Fault{Field: "/app", Problem: fault})
	}
	for i, t := range n.Targets {
		if fault, some := apps[n.App].fault(t); some {
			fault.Field = "/targets/" + strconv.Itoa(i) + fault.Field
			f = append(f, fault)
		}
	}
	if policies.Unknown(n.Category) == limits.RefuseUnknown {
		f = append(f, push.Fault{Field: "/category", Problem: "is not one of the configuration's" + near.Hint(n.Category, policies.Configured())})
	}
	return f
}

// Refusal is UnknownNames, and with what it finds all else that is wrong: the error of a
// notification that is refused, nil for one that is left to Validate.
func Refusal(n *push.Notification, apps Apps, policies *limits.Policies) error {
	f := UnknownNames(n, apps, policies)
	if len(f) == 0 {
		return nil
	}
	if others, ok := n.Validate().(push.Faults); ok { //nolint:errorlint // it is of no other type
		f = append(f, others...)
	}
	return f
}

// OverrideWarnings are what is odd about an override, in the place of what is in force:
// the category's own policy, or the general one where it names no category.
func OverrideWarnings(o limits.Override, inForce throttle.Policy, configured []string) []string {
	if o.Quota != "" { // which no user has
		return nil
	}
	warnings := throttle.Warnings(o.Policy)
	if o.Mute {
		warnings = nil
	}
	if w := CategoryWarning(o.Category, configured); w != "" {
		warnings = append(warnings, w)
	}
	switch {
	case o.Category == "" || !inForce.Exempt || o.Policy.Exempt || o.All:
	case o.Mute:
		warnings = append(warnings, "category "+strconv.Quote(o.Category)+" is exempt: its notifications pass a mute that is not of all")
	default:
		warnings = append(warnings, "category "+strconv.Quote(o.Category)+" was exempt: from now on its notifications wait for limits, the general ones too")
	}
	if !o.Mute && len(inForce.Quiet) > 0 && len(o.Policy.Quiet) == 0 && !o.Policy.Exempt {
		warnings = append(warnings, "quiet hours "+inForce.Quiet.String()+" no longer hold: an override replaces the whole policy")
	}
	return warnings
}
