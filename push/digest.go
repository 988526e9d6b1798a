package push

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/base/strictjson"
)

const (
	// MaxDigestKeyBytes bounds a digest's key.
	MaxDigestKeyBytes = 64
	// MaxDigest is the maximum number of notifications in one digest.
	MaxDigest = 100
	// DigestKey is the key of Data for the number of notifications in a digest's push.
	DigestKey = "pushpace_digest"
	// maxDigestSize bounds the JSON form of a notification with a digest, in bytes: the job
	// also holds the IDs of all notifications of the digest.
	maxDigestSize = 32 << 10
)

// A Digest combines notifications of a user and category into one push. While a notification with the key
// waits for a limit or for quiet hours, later notifications with the key join it, and end as digested.
//
// In Title and Body, {count} is the number of notifications in the push; {first}, {second} and
// {third} are the titles of the first three to join; {more} is the number of notifications that
// the text does not name.
type Digest struct {
	// Key is equal for notifications of one digest. 1 to 64 bytes of UTF-8 without control
	// characters.
	Key string `json:"key"`
	// Title and Body are the texts of the push, taken from the newest notification. If a text is empty,
	// the push has the notification's own.
	Title string `json:"title,omitempty"`
	Body  string `json:"body,omitempty"`
}

// places matches the placeholders of a digest's text. Braces that remain without them are a fault,
// of which braced matches a wrong placeholder's name or one brace: the log gets no other text.
var (
	places = regexp.MustCompile(`\{(count|more|first|second|third)\}`)
	braced = regexp.MustCompile(`\{[A-Za-z0-9_.]{0,20}\}|[{}]`)
)

// ordinals are the placeholders for titles, by position.
var ordinals = []string{"{first}", "{second}", "{third}"}

func (n *Notification) checkDigest(f *Faults) {
	d := n.Digest
	if d == nil {
		return
	}
	switch {
	case d.Key == "":
		f.Add("/digest/key", "is missing")
	default:
		if problem := names.Text(d.Key, MaxDigestKeyBytes); problem != "" {
			f.Add("/digest/key", "%s", problem)
		}
	}
	for _, text := range []struct{ field, value string }{{"/digest/title", d.Title}, {"/digest/body", d.Body}} {
		if !utf8.ValidString(text.value) {
			f.Add(text.field, "must be UTF-8")
		}
		if rest := places.ReplaceAllString(text.value, ""); strings.ContainsAny(rest, "{}") {
			f.Add(text.field, "must have no braces but those of {count}, {more}, {first}, {second} and {third}: not %q", braced.FindString(rest))
		}
	}
	if n.CollapseKey != "" {
		f.Add("/digest", "must be left out beside collapse_key, which replaces the notifications that a digest counts")
	}
	if n.hasBlock() {
		f.Add("/digest", "must be left out beside the blocks %s", fielderrors.List(Platforms(), "and"))
	}
	if n.pushType() != PushAlert {
		f.Add("/digest", "must be left out: push type %q shows no digest", n.PushType)
	}
	if _, taken := n.Data[DigestKey]; taken {
		f.Add(strictjson.Pointer("data", DigestKey), "is reserved for the number of notifications in a digest")
	}
}

// checkDigestSize checks that a push of MaxDigest notifications fits, whichever of them carries
// the digest.
func (n *Notification) checkDigestSize(f *Faults) {
	if n.Digest == nil {
		return
	}
	if text, err := strictjson.Encode(n); err != nil || len(text) > maxDigestSize {
		f.Add("/digest", "must be left out: a notification with a digest has at most %d bytes", maxDigestSize)
		return
	}
	carrier := *n
	carrier.ID, carrier.Priority = strings.Repeat("0", MaxIDBytes), Bulk
	all := &Carried{Count: MaxDigest, Newest: n}
	for _, fault := range all.push(&carrier, n, nil).sizeFaults(false) {
		f.Add("/digest", "%s", fault.Problem)
	}
}

// Carried is the content of a digest's push: the notification that carries the digest, and the
// notifications that have joined it.
type Carried struct {
	// Count is the number of notifications. Titles are their first three titles, beginning with the
	// carrier's.
	Count  int
	Titles []string
	// Newest is the notification that was accepted last. The push has its data and texts.
	Newest *Notification
}

// Push returns the notification to send for the digest. It has the carrier's ID and targets, and
// leaves out titles that do not fit. If the newest notification's content does not fit the
// platforms of the carrier's targets, the push has the carrier's content.
func (c *Carried) Push(carrier *Notification) (told *Notification) {
	if c.Count <= 1 {
		return carrier
	}
	for _, shown := range []*Notification{c.Newest, carrier} {
		for _, titles := range [][]string{c.Titles, nil} {
			if told = c.push(carrier, shown, titles); told.fits() {
				return told
			}
		}
	}
	return told
}

// fits reports whether the notification is valid for its targets and fits in a job.
func (n *Notification) fits() bool {
	f := n.faults()
	n.checkShown(&f)
	text, err := strictjson.Encode(n)
	return err == nil && len(text) <= maxDigestSize && len(f) == 0 && len(n.sizeFaults(false)) == 0
}

// push returns a push with the content of shown.
func (c *Carried) push(carrier, shown *Notification, titles []string) *Notification {
	told := *shown
	told.ID, told.App, told.User, told.Category = carrier.ID, carrier.App, carrier.User, carrier.Category
	told.Priority, told.NotBefore, told.ExpiresAt, told.TTL = carrier.Priority, carrier.NotBefore, carrier.ExpiresAt, 0
	told.Targets, told.Digest = carrier.Targets, nil
	told.Data = maps.Clone(told.Data)
	if told.Data == nil {
		told.Data = map[string]string{}
	}
	told.Data[DigestKey] = strconv.Itoa(c.Count)
	if text := shown.Digest; text != nil {
		told.Title = filled(text.Title, told.Title, c.Count, titles)
		told.Body = filled(text.Body, told.Body, c.Count, titles)
	}
	return &told
}

// filled returns the result of fill, or ownText if the result is blank.
func filled(text, ownText string, count int, titles []string) string {
	if text = fill(text, count, titles); strings.TrimSpace(text) == "" {
		return ownText
	}
	return text
}

// fill replaces a text's placeholders. It does not replace placeholders in the titles.
func fill(text string, count int, titles []string) string {
	named := 0
	for i, o := range ordinals {
		if i < len(titles) && strings.Contains(text, o) {
			named++
		}
	}
	return places.ReplaceAllStringFunc(text, func(place string) string {
		switch i := slices.Index(ordinals, place); {
		case place == "{count}":
			return strconv.Itoa(count)
		case place == "{more}":
			return strconv.Itoa(max(0, count-named))
		case i < len(titles):
			return titles[i]
		}
		return ""
	})
}
