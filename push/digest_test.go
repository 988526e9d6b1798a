package push

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// liked returns a notification with a digest.
func liked(id, title string) *Notification {
	return &Notification{
		ID: id, App: "shop", User: "u1", Category: "likes", Targets: []Target{{Platform: FCM, Token: "token"}, {Platform: APNs, Token: "ab"}}, Title: title, Body: "likes your photo",
		Digest: &Digest{Key: "post-4711", Title: "{count} people like your photo", Body: "{first}, {second} and {more} others"},
	}
}

func TestDigestIsValidated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(n *Notification)
		field  string
	}{
		"as it is":        {func(*Notification) {}, ""},
		"no texts":        {func(n *Notification) { n.Digest.Title, n.Digest.Body = "", "" }, ""},
		"no key":          {func(n *Notification) { n.Digest.Key = "" }, "/digest/key"},
		"a long key":      {func(n *Notification) { n.Digest.Key = strings.Repeat("é", 33) }, "/digest/key"},
		"a hidden key":    {func(n *Notification) { n.Digest.Key = "a\u202eb" }, "/digest/key"},
		"a placeholder":   {func(n *Notification) { n.Digest.Title = "{fourth}" }, "/digest/title"},
		"a brace":         {func(n *Notification) { n.Digest.Body = "{count} :-}" }, "/digest/body"},
		"a collapse key":  {func(n *Notification) { n.CollapseKey = "k" }, "/digest"},
		"a raw block":     {func(n *Notification) { n.FCM = []byte(`{"data":{"a":"b"}}`) }, "/digest"},
		"nothing shown":   {func(n *Notification) { n.PushType, n.Title, n.Body = PushBackground, "", "" }, "/digest"},
		"its data":        {func(n *Notification) { n.Data = map[string]string{DigestKey: "1"} }, "/data/" + DigestKey},
		"a long text":     {func(n *Notification) { n.Digest.Body = strings.Repeat("x", MaxFCMMessage) }, "/digest"},
		"too many tokens": {func(n *Notification) { n.Targets = longTargets(20) }, "/digest"},
	} {
		n := liked("id", "Ada")
		c.change(n)
		err := n.Validate()
		if c.field == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !slices.ContainsFunc(faultsOf(t, err), func(f Fault) bool { return f.Field == c.field }) {
			t.Errorf("%s: %v, want a fault at %s", name, err, c.field)
		}
	}
}

// The fault of a digest's text mentions the braces that have no meaning.
func TestDigestFaultMentionsBraces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{count} of {number}": `not "{number}"`, "{count} :-}": `not "}"`, "{count} {": `not "{"`,
		"{secret text": `not "{"`, "{secret text}": `not "{"`, "{" + strings.Repeat("secret", 4) + "}": `not "{"`,
	} {
		n := liked("id", "Ada")
		n.Digest.Title = text
		if err := n.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// longTargets are some with tokens of 2000 bytes.
func longTargets(n int) []Target {
	all := targets(n)
	for i := range all {
		all[i].Token += strings.Repeat("x", 2000)
	}
	return all
}

// The push has the carrier's ID, targets and expiry, and the newest notification's content and
// texts.
func TestDigestPushHasContentOfNewest(t *testing.T) {
	t.Parallel()
	carrier, newest := liked("first", "Ada"), liked("last", "Zoe")
	carrier.Priority, carrier.NotBefore, carrier.ExpiresAt = Bulk, noon, noon.Add(time.Hour)
	newest.Targets, newest.Data, newest.Sound = []Target{{Platform: FCM, Token: "other"}}, map[string]string{"k": "v"}, "s"
	all := &Carried{Count: 14, Titles: []string{"Ada {count}", "\u202eBen", "Cy"}, Newest: newest}
	got := all.Push(carrier)
	if got.ID != "first" || got.Priority != Bulk || !got.NotBefore.Equal(noon) || !got.ExpiresAt.Equal(carrier.ExpiresAt) || got.Digest != nil ||
		!slices.Equal(got.Targets, carrier.Targets) || got.Data["k"] != "v" || got.Data[DigestKey] != "14" || got.Sound != "s" {
		t.Errorf("%+v", got)
	}
	if got.Title != "14 people like your photo" || got.Body != "Ada {count}, \u202eBen and 12 others" {
		t.Errorf("%q %q", got.Title, got.Body)
	}
	if newest.Data[DigestKey] != "" {
		t.Error("the newest one's data has changed")
	}
	newest.Digest = &Digest{Key: "post-4711"}
	if got := all.Push(carrier); got.Title != "Zoe" || got.Body != "likes your photo" {
		t.Errorf("its own texts: %q %q", got.Title, got.Body)
	}
	alone := &Carried{Count: 1, Titles: []string{"Ada"}, Newest: carrier}
	if got := alone.Push(carrier); got != carrier {
		t.Errorf("alone: %+v", got)
	}
}

// A push of MaxDigest notifications and its job fit, with any titles.
func TestDigestOfMaximumSizeFits(t *testing.T) {
	t.Parallel()
	for _, letter := range []string{"x", "é", "\x01", `"`, "\u2028"} {
		long := strings.Repeat(letter, 2000/len(letter))
		carrier, newest := liked(strings.Repeat("i", MaxIDBytes), "Ada"), liked("n", "Zoe")
		newest.Digest.Title = "{first}{first}{first} {count}"
		must(t, newest.Validate())
		all := &Carried{Count: MaxDigest, Titles: []string{long, long, long}, Newest: newest}
		var others []string
		for i := range MaxDigest - 1 {
			others = append(others, fmt.Sprint(strings.Repeat(`"`, MaxIDBytes-3), i))
		}
		got := all.Push(carrier)
		if f := got.sizeFaults(true); len(f) > 0 {
			t.Errorf("%q: %v", letter, f)
		}
		if got.Title != " 100" {
			t.Errorf("%q: the count is gone: %q", letter, got.Title)
		}
		payload, err := Encode(&Job{Notification: got, AcceptedAt: noon, Digested: others})
		if err != nil {
			t.Errorf("%q: %v", letter, err)
		}
		if job, err := Decode(payload); err != nil || len(job.Digested) != MaxDigest-1 {
			t.Errorf("%q: %v", letter, err)
		}
	}
}

// The push has the carrier's content if the newest notification's content does not fit the carrier's
// targets.
func TestDigestPushFallsBackToContentOfCarrier(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(newest *Notification)
		want   string
	}{
		"fits":          {func(*Notification) {}, "Zoe"},
		"reserved data": {func(n *Notification) { n.Data = map[string]string{"aps": "x"} }, "Ada"},
	} {
		carrier, newest := liked("first", "Ada"), liked("last", "Zoe")
		carrier.Digest, newest.Digest = &Digest{Key: "k"}, &Digest{Key: "k"}
		newest.Targets = newest.Targets[:1]
		c.change(newest)
		if err := newest.Validate(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := (&Carried{Count: 2, Titles: []string{"Ada", "Zoe"}, Newest: newest}).Push(carrier)
		if got.Title != c.want || got.Data[DigestKey] != "2" || len(got.Targets) != 2 {
			t.Errorf("%s: %+v, want what %s shows", name, got, c.want)
		}
	}
}

// Without titles, or without room for them, a digest's text has the number. A blank text is replaced by
// the newest notification's own text.
func TestDigestWithoutTitlesShowsCount(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3000)
	for _, c := range []struct {
		body   string
		titles []string
		want   string
	}{
		{"{first}", []string{"", ""}, "somebody likes it"},
		{"{first}, {second} and {more} others", []string{long, long, long}, ",  and 5 others"},
	} {
		carrier := &Notification{ID: "a", App: "shop", User: "u", Body: "somebody likes it", Digest: &Digest{Key: "k", Body: c.body},
			Targets: []Target{{Platform: FCM, Token: "device"}}}
		all := &Carried{Count: 5, Titles: c.titles, Newest: carrier}
		if got := all.Push(carrier).Body; got != c.want {
			t.Errorf("%q: %q, want %q", c.body, got, c.want)
		}
	}
}
