package push

import (
	"errors"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// The bounds of a notification.
const (
	// MaxIDBytes bounds the ID.
	MaxIDBytes = 128
	// MaxNameBytes bounds the app, the user and the category.
	MaxNameBytes = names.MaxBytes
	// MaxTargets bounds the number of targets.
	MaxTargets = 100
	// MaxTokenBytes bounds a target's token or FID. No platform fixes its length.
	MaxTokenBytes = 4096
	// MaxCollapseKeyBytes bounds the collapse key.
	// Source: Apple, "Sending notification requests to APNs", apns-collapse-id.
	MaxCollapseKeyBytes = 64
)

// Validate returns all faults of the notification, as Faults; nil if there are none. It renders for
// each platform that has a target, to check the platforms' size limits. A TTL or ExpiresAt beyond
// the longest time that a platform stores a message is no fault: rendering shortens it for FCM and
// Web Push, and APNs shortens it itself.
func (n *Notification) Validate() error {
	f := n.faults()
	n.checkEnds(&f)
	n.checkAddresses(&f)
	n.checkLocal(&f)
	n.checkSpan(&f)
	if n.leastSize() <= MaxEncodedSize {
		if len(f) == 0 {
			n.checkShown(&f)
		}
		f = append(f, n.sizeFaults(len(f) == 0)...)
		if len(f) == 0 {
			n.checkDigestSize(&f)
		}
	}
	return f.Err()
}

// faults returns the faults that also a queued notification must not have. It leaves out rendered
// sizes, alerts without content, time zones, and white space at the ends of names.
func (n *Notification) faults() Faults {
	var f Faults
	if size := n.leastSize(); size > MaxEncodedSize {
		f.Add("", "is more than %d bytes, at most %d are taken", size, MaxEncodedSize)
		return f
	}
	n.checkNames(&f)
	n.checkTargets(&f)
	n.checkContent(&f)
	n.checkData(&f)
	n.checkTimes(&f)
	n.checkRaw(&f)
	n.checkDigest(&f)
	return f
}

// leastSize returns a lower bound of the encoded size, in bytes. It is cheap and bounds the work of
// the other checks.
func (n *Notification) leastSize() int {
	size := len(n.ID) + len(n.App) + len(n.User) + len(n.Category) +
		len(n.Title) + len(n.Subtitle) + len(n.Body) + len(n.Sound) + len(n.Image) +
		len(n.Thread) + len(n.Channel) + len(n.PushType) + len(n.CollapseKey) + len(n.NotBeforeLocal) + len(n.TimeZone)
	for _, t := range n.Targets {
		size += len(t.Token) + len(t.FID) + len(`{"platform":"fcm","fid":""}`)
		if t.Keys != nil {
			size += len(t.Keys.P256DH) + len(t.Keys.Auth) + len(`,"keys":{"p256dh":"","auth":""}`)
		}
	}
	for key, value := range n.Data {
		size += len(key) + len(value) + len(`"":""`)
	}
	if n.Digest != nil {
		size += len(n.Digest.Key) + len(n.Digest.Title) + len(n.Digest.Body)
	}
	for _, p := range platforms {
		for _, c := range *p.block(n) {
			if c > ' ' { // the encoding leaves white space out
				size++
			}
		}
	}
	return size
}

func (n *Notification) checkNames(f *Faults) {
	if n.ID != "" && strings.TrimSpace(n.ID) == "" {
		f.Add("/id", "must not be blank")
	} else if n.ID != "" && !ValidID(n.ID) {
		f.Add("/id", "must be printable ASCII of at most %d bytes", MaxIDBytes)
	}
	for _, name := range []struct {
		field, value string
		least        int
	}{
		{"/app", n.App, 1}, {"/user", n.User, 1}, {"/category", n.Category, 0},
	} {
		if len(name.value) < name.least {
			f.Add(name.field, "is missing")
		} else if problem := names.Text(name.value, MaxNameBytes); problem != "" {
			f.Add(name.field, "%s", problem)
		}
	}
	switch n.Priority {
	case "", Critical, Default, Bulk:
	default:
		f.Add("/priority", "must be %s, %s or %s", Critical, Default, Bulk)
	}
	if problem := names.Text(n.CollapseKey, MaxCollapseKeyBytes); problem != "" {
		f.Add("/collapse_key", "%s", problem)
	}
}

// checkEnds rejects names that begin or end in white space and have no other fault.
func (n *Notification) checkEnds(f *Faults) {
	digest := ""
	if n.Digest != nil {
		digest = n.Digest.Key
	}
	for _, name := range [...]struct{ field, value string }{
		{"/id", n.ID}, {"/app", n.App}, {"/user", n.User}, {"/category", n.Category},
		{"/thread", n.Thread}, {"/channel", n.Channel}, {"/sound", n.Sound}, {"/image", n.Image},
		{"/collapse_key", n.CollapseKey}, {"/digest/key", digest}, {"/time_zone", n.TimeZone},
	} {
		problem := names.Ends(name.value)
		if problem != "" && !slices.ContainsFunc(*f, func(one Fault) bool { return one.Field == name.field }) {
			f.Add(name.field, "%s", problem)
		}
	}
}

// ValidID reports whether a notification can have the ID. A new ID must not begin or end with a
// space either.
func ValidID(id string) bool {
	return len(id) <= MaxIDBytes && isPrintable(id, ' ') && strings.TrimSpace(id) != ""
}

// ValidName reports whether an app, a user or a category can have the name.
func ValidName(name string) bool {
	return name != "" && names.Fault(name, MaxNameBytes) == ""
}

func (n *Notification) checkTargets(f *Faults) {
	switch {
	case len(n.Targets) == 0:
		f.Add("/targets", "is missing: at least one is needed")
	case len(n.Targets) > MaxTargets:
		f.Add("/targets", "has %d targets, at most %d are taken", len(n.Targets), MaxTargets)
		return
	}
	var seen map[Target]int
	if len(n.Targets) > 1 {
		seen = make(map[Target]int, len(n.Targets))
	}
	for i, t := range n.Targets {
		// Pointers are built only for faults: most targets have no fault.
		at := func(field string) string { return "/targets/" + strconv.Itoa(i) + field }
		p := platformOf(t.Platform)
		if p == nil {
			f.Add(at("/platform"), "must be %s", fielderrors.List(Platforms(), "or"))
			p = new(platform)
		}
		p.checkAddress(t, at, f)
		switch {
		case p.keyed && t.Keys == nil:
			f.Add(at("/keys"), "is missing: want p256dh and auth of the subscription")
		case p.keyed:
			t.Keys.check(at, f)
		case t.Keys != nil:
			f.Add(at("/keys"), "must be left out: only targets of %s have keys", PlatformWebPush)
		}
		if seen == nil {
			continue
		}
		d := t.Device()
		if first, ok := seen[d]; ok {
			f.Add(at(""), "is the same device as /targets/%d", first)
		} else {
			seen[d] = i
		}
	}
}

// checkAddress checks that the target has a valid token or, for FCM, either a valid token or a valid FID.
func (p *platform) checkAddress(t Target, at func(string) string, f *Faults) {
	field, problem := at("/token"), ""
	switch {
	case t.FID == "":
		if p.token != nil {
			problem = p.token(t.Token)
		}
	case p.name != FCM:
		f.Add(at("/fid"), "must be left out: only targets of %s have a FID, all others need a token", FCM)
		return
	case t.Token != "":
		f.Add(at("/fid"), "must be left out beside token: a target has only one of them")
		return
	default:
		field = at("/fid")
	}
	address := t.Address()
	switch {
	case address == "" && p.name == FCM:
		f.Add(field, "is missing: want a registration token here, or a Firebase Installation ID in fid")
	case address == "":
		f.Add(field, "is missing")
	case len(address) > MaxTokenBytes:
		f.Add(field, "is %d bytes, at most %d are taken", len(address), MaxTokenBytes)
	case problem != "":
		f.Add(field, "%s", problem)
	case !isPrintable(address, '!'):
		f.Add(field, "must be printable ASCII without spaces")
	}
}

func (n *Notification) checkContent(f *Faults) {
	_, known := topicSuffixes[n.pushType()]
	if !known {
		f.Add("/push_type", "is not one of APNs' push types, such as %s or %s", PushAlert, PushBackground)
	}
	for p := range n.targeted() {
		if known && p.alertOnly && n.pushType() != PushAlert {
			f.Add("/push_type", "must be %s: targets of %s accept no other push type", PushAlert, p.name)
		}
	}
	type content struct {
		field string
		set   bool
		value string
		// live is true if a Live Activity can have it too.
		live bool
	}
	for _, c := range [...]content{
		{"/title", n.Title != "", n.Title, true},
		{"/subtitle", n.Subtitle != "", n.Subtitle, false},
		{"/body", n.Body != "", n.Body, true},
		{"/badge", n.Badge != nil, "", false},
		{"/sound", n.Sound != "", n.Sound, true},
		{"/image", n.Image != "", n.Image, false},
		{"/thread", n.Thread != "", n.Thread, false},
		{"/channel", n.Channel != "", n.Channel, false},
	} {
		if !utf8.ValidString(c.value) {
			f.Add(c.field, "must be UTF-8")
		}
		shows := n.pushType() == PushAlert || n.pushType() == PushLiveActivity && c.live
		if c.set && known && !shows {
			f.Add(c.field, "must be left out: push type %q does not show it", n.PushType)
		}
	}
	if n.Badge != nil && (*n.Badge < 0 || *n.Badge > math.MaxInt32) {
		f.Add("/badge", "must be from 0 to %d", math.MaxInt32)
	}
	if n.Image != "" {
		if problem := isHTTPS(n.Image); problem != "" {
			f.Add("/image", "%s", problem)
		}
	}
}

func (n *Notification) checkData(f *Faults) {
	if len(n.Data) == 0 {
		return
	}
	targeted := slices.Collect(n.targeted())
	before := len(*f)
	for key, value := range n.Data {
		problem := ""
		switch {
		case key == "":
			problem = "must have a name"
		case key == IDKey:
			problem = "is reserved for the notification's ID"
		}
		for _, p := range targeted {
			if problem == "" && p.data != nil {
				problem = p.data(n, key)
			}
		}
		if problem == "" && !(utf8.ValidString(key) && utf8.ValidString(value)) {
			problem = "must be UTF-8"
		}
		if problem != "" {
			f.Add(strictjson.Pointer("data", key), "%s", problem)
		}
	}
	slices.SortFunc((*f)[before:], func(a, b Fault) int { return strings.Compare(a.Field, b.Field) })
}

func (n *Notification) checkTimes(f *Faults) {
	checkInstant(f, "/not_before", n.NotBefore)
	checkInstant(f, "/expires_at", n.ExpiresAt)
	if n.TTL < 0 {
		f.Add("/ttl", "must be positive")
	}
	if n.TTL != 0 && !n.ExpiresAt.IsZero() {
		f.Add("/ttl", "must be left out beside expires_at: give the expiry by only one of them")
	}
}

// checkSpan rejects a new notification that expires before its NotBefore. A queued notification ends as
// expired.
func (n *Notification) checkSpan(f *Faults) {
	if !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(n.earliest()) {
		f.Add("/expires_at", "must be after not_before")
	}
}

// checkInstant rejects times that RFC 3339 cannot express.
func checkInstant(f *Faults, field string, t time.Time) {
	if t.IsZero() {
		return
	}
	if _, err := t.UTC().MarshalText(); err != nil {
		f.Add(field, "must be in the years 0 to 9999")
	} else if _, err := t.MarshalText(); err != nil {
		f.Add(field, "must be less than a day away from UTC")
	}
}

func (n *Notification) checkRaw(f *Faults) {
	for _, p := range slices.Backward(platforms) { // callers know the faults in this order
		block := p.checkBlock(n, f)
		if p.needs != nil {
			p.needs(n, block, f)
		}
	}
}

// checkBlock returns the decoded block; nil if it is absent or not a JSON object.
func (p *platform) checkBlock(n *Notification, f *Faults) map[string]any {
	raw := *p.block(n)
	if absent(raw) {
		return nil
	}
	var block map[string]any
	if err := strictjson.Decode(raw, &block); err != nil {
		f.Add("/"+string(p.name), "must be one JSON object")
		return nil
	}
	p.shape.check(block, []string{string(p.name)}, f)
	return block
}

// surelyFits reports, without rendering, that no platform's payload can be too large: JSON needs at most
// six bytes for a byte of a value, and less than 1 kB around the values. After false, all payloads may
// still fit.
func (n *Notification) surelyFits() bool {
	if n.hasBlock() {
		return false
	}
	const perByte, perEntry, rest = 6, len(`"":"",`), 1024
	values := 2*max(len(n.ID), 36) + len(n.Category) + len(n.Title) + len(n.Subtitle) + len(n.Body) + len(n.Sound) + len(n.Image) +
		len(n.Thread) + len(n.Channel) + 2*len(n.CollapseKey)
	for key, value := range n.Data {
		values += len(key) + len(value)
	}
	size := perByte*values + perEntry*len(n.Data) + rest
	return !slices.ContainsFunc(platforms, func(p *platform) bool { return size > p.most })
}

// sizeFaults renders for each platform that has a target, and returns the faults of sizes. If
// otherwiseValid, the notification has no other faults, and sizeFaults also returns other errors of
// rendering.
func (n *Notification) sizeFaults(otherwiseValid bool) Faults {
	var f Faults
	if n.surelyFits() {
		return nil
	}
	id := n.ID
	if id == "" {
		id = "00000000-0000-0000-0000-000000000000" // as long as a generated ID
	}
	for p := range n.targeted() {
		_, err := p.largest(n, id)
		var tooLarge Faults
		if errors.As(err, &tooLarge) {
			for _, fault := range tooLarge {
				f.Add(n.longest(p), "is too long: the notification %s", fault.Problem)
			}
		} else if err != nil && otherwiseValid {
			f.Add("", "cannot be rendered for %s: %v", p.name, err)
		}
	}
	return f
}

// longest returns the field of the longest part of the content that the platform gets.
func (n *Notification) longest(p *platform) (field string) {
	data, most := 0, 0
	for key, value := range n.Data {
		data += len(key) + len(value)
	}
	for _, part := range []struct {
		field string
		bytes int
	}{
		{"/title", len(n.Title)}, {"/subtitle", len(n.Subtitle)}, {"/body", len(n.Body)}, {"/data", data}, {"/image", len(n.Image)}, {"/sound", len(n.Sound)},
		{"/" + string(p.name), len(*p.block(n))},
	} {
		if part.bytes > most {
			field, most = part.field, part.bytes
		}
	}
	return field
}

// isPrintable reports whether s is ASCII from the character first to the tilde.
func isPrintable(s string, first byte) bool {
	for i := range len(s) {
		if s[i] < first || s[i] > '~' {
			return false
		}
	}
	return true
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; (s[i] < '0' || s[i] > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func isHTTPS(s string) string {
	if u, err := url.Parse(s); err != nil || u.Scheme != "https" || u.Host == "" {
		return "must be an https URL"
	}
	return ""
}
