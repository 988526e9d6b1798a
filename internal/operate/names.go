package operate

import (
	"maps"
	"slices"
	"strconv"

	"github.com/pushpace/pushpace/internal/base/suggest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// Apps are the configured apps by name. Nil accepts any app.
type Apps map[string]App

// An App is an app's configuration. The zero value sends to any platform and host.
type App struct {
	// Platforms are the platforms that the app sends to; nil for any.
	Platforms []push.Platform
	// Hosts are the allowed hosts of Web Push endpoints, as push.HostAmong reads them; nil for
	// any.
	Hosts []string
}

// fault returns the fault of a target on a platform, or at a host, that the app does not send to.
// The endpoint of an ended subscription is no fault here: the worker reports it.
func (a App) fault(t push.Target) (f push.Fault, some bool) {
	if !slices.Contains(push.Platforms(), t.Platform) { // Validate reports it
		return f, false
	}
	if a.Platforms != nil && !slices.Contains(a.Platforms, t.Platform) {
		return push.Fault{Field: "/platform", Problem: "is not a platform of the app in the configuration"}, true
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

// Fault returns the problem with an app's name, as the end of a sentence; "" for none.
func (a Apps) Fault(name string) string {
	if _, known := a[name]; known || a == nil {
		return ""
	}
	return suggest.UnknownApp(name, a.Names())
}

// Categories returns the configured categories.
func (o *Operator) Categories() []string { return o.s.with.Limits.Configured() }

// CategoryWarning returns a warning about a category's name; "" for none.
func CategoryWarning(name string, configured []string) string {
	if name == "" || slices.Contains(configured, name) {
		return ""
	}
	return "category " + name + " is not configured" + suggest.Hint(name, configured)
}

// Warnings returns the warnings about an accepted notification: an unconfigured category, if the
// policies warn of it.
func Warnings(n *push.Notification, policies *limits.Policies) []string {
	if policies.Unknown(n.Category) != limits.WarnUnknown {
		return nil
	}
	return []string{CategoryWarning(n.Category, policies.Configured())}
}

// UnknownNames returns faults for names that are not configured: the app, a target's platform or
// host and, if the policies refuse unknown categories, the category. Validate returns all other
// faults.
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
		f = append(f, push.Fault{Field: "/category", Problem: "is not configured" + suggest.Hint(n.Category, policies.Configured())})
	}
	return f
}

// Refusal returns nil if the notification has no UnknownNames; the caller must then call Validate.
// Otherwise it returns the UnknownNames and Validate's faults.
func Refusal(n *push.Notification, apps Apps, policies *limits.Policies) error {
	f := UnknownNames(n, apps, policies)
	if len(f) == 0 {
		return nil
	}
	if others, ok := n.Validate().(push.Faults); ok { //nolint:errorlint // Validate returns no other type
		f = append(f, others...)
	}
	return f
}

// OverrideWarnings returns the warnings about an override that replaces the policy in force: the
// category's own or, without a category, the general one.
func OverrideWarnings(o limits.Override, inForce throttle.Policy, configured []string) []string {
	if o.Quota != "" { // the warnings are about users' limits
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
