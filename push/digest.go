package push

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pushpace/pushpace/internal/base/faults"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/base/strictjson"
)

const (
	// MaxDigestKeyBytes bounds a digest's key.
	MaxDigestKeyBytes = 64
	// MaxDigest is how many notifications one push tells of at most.
	MaxDigest = 100
	// DigestKey is where it stands in the data of both platforms how many notifications a
	// push tells of.
	DigestKey = "pushpace_digest"
	// maxDigestSize bounds the JSON form of a notification with a digest: the IDs of all
	// that one push tells of stand in the same job.
	maxDigestSize = 32 << 10
)

// A Digest says with which other notifications of the user and the category one may be told
// of in one push, and what that shows. While one with the key waits for a limit or for quiet
// hours, those that come later join it, and end as digested.
//
// In Title and Body {count} stands for how many the push tells of, {first}, {second} and
// {third} for the titles of the first of them, as they joined, and {more} for how many there
// are besides those that the text names.
type Digest struct {
	// Key is the same of those that belong together. 1 to 64 bytes of UTF-8 without control
	// characters.
	Key string `json:"key"`
	// Title and Body are what the push shows; where one is empty, it is the notification's
	// own. Of several notifications those of the newest count.
	Title string `json:"title,omitempty"`
	Body  string `json:"body,omitempty"`
}

// places are the placeholders of a digest's text; braces that are none are told apart by
// what remains.
var places = regexp.MustCompile(`\{(count|more|first|second|third)\}`)

// ordinals are those of the placeholders that name a notification, by its place.
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
		if strings.ContainsAny(places.ReplaceAllString(text.value, ""), "{}") {
			f.Add(text.field, "must have no braces but those of {count}, {more}, {first}, {second} and {third}")
		}
	}
	if n.CollapseKey != "" {
		f.Add("/digest", "must be left out beside collapse_key: one replaces what the other counts")
	}
	if n.hasBlock() {
		f.Add("/digest", "must be left out beside the blocks %s", faults.List(Platforms(), "and"))
	}
	if n.pushType() != PushAlert {
		f.Add("/digest", "must be left out: push type %q shows none", n.PushType)
	}
	if _, taken := n.Data[DigestKey]; taken {
		f.Add(strictjson.Pointer("data", DigestKey), "is reserved for how many a digest tells of")
	}
}

// checkDigestSize has the push of a digest fit with as many as there may be, whichever
// notification carries it.
func (n *Notification) checkDigestSize(f *Faults) {
	if n.Digest == nil {
		return
	}
	if text, err := strictjson.Encode(n); err != nil || len(text) > maxDigestSize {
		f.Add("/digest", "must be left out: a notification with one is of at most %d bytes", maxDigestSize)
		return
	}
	carrier := *n
	carrier.ID, carrier.Priority = strings.Repeat("0", MaxIDBytes), Bulk
	all := &Carried{Count: MaxDigest, Newest: n}
	for _, fault := range all.push(&carrier, n, nil).sizeFaults(false) {
		f.Add("/digest", "%s", fault.Problem)
	}
}

// Carried is what one push tells of: the notification that carries the digest, and those
// that have joined it.
type Carried struct {
	// Count is how many there are, and Titles are those of the first three, the carrier's first.
	Count  int
	Titles []string
	// Newest is the one that was accepted last: its data and texts count.
	Newest *Notification
}

// Push returns the notification that tells of all. It has the carrier's ID and targets.
// Titles that it has no room for are left out. What the newest one shows is replaced by what the
// carrier does if it is not for the platforms of the carrier's targets, or too large for them.
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

// fits reports whether the targets can have all that a digest shows, and so can a job.
func (n *Notification) fits() bool {
	f := n.faults()
	n.checkShown(&f)
	text, err := strictjson.Encode(n)
	return err == nil && len(text) <= maxDigestSize && len(f) == 0 && len(n.sizeFaults(false)) == 0
}

// push returns the push that shows what the notification does.
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

// filled is the text as fill has it, or the newest's own where that shows nothing.
func filled(text, own string, count int, titles []string) string {
	if text = fill(text, count, titles); strings.TrimSpace(text) == "" {
		return own
	}
	return text
}

// fill puts what they stand for in the place of a text's placeholders. What is put there is
// not looked at again.
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
