package push

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/store"
)

func job() *Job {
	n := sample()
	n.NotBefore, n.ExpiresAt = time.Time{}, noon
	return &Job{Notification: n, AcceptedAt: noon.Add(-time.Minute + time.Microsecond)}
}

// Queues have jobs with these bytes of version 1: Decode must read them, and Encode must write the same
// bytes.
const jobV1Golden = `{"v":1,"accepted_at":"2026-11-20T11:59:00.000001Z","notification":{"id":"order-4711-shipped","app":"shop","user":"u1","category":"orders","priority":"default","targets":[{"platform":"apns","token":"00fc13adff785122"},{"platform":"fcm","token":"dGVzdA:APA91b"}],"title":"Shipped","subtitle":"Order 4711","body":"It is <on> its way & \"soon\" there","badge":3,"sound":"default","image":"https://example.com/a.png","thread":"orders","channel":"orders","data":{"order":"4711"},"collapse_key":"order-4711","expires_at":"2026-11-20T12:00:00Z"}}`

func TestEncodeWritesBytesOfVersion1(t *testing.T) {
	t.Parallel()
	got, err := Encode(job())
	must(t, err)
	if string(got) != jobV1Golden {
		t.Errorf("encoded\n%s, want\n%s", got, jobV1Golden)
	}
	// other programs may write the version last
	last := strings.TrimSuffix(strings.Replace(jobV1Golden, `{"v":1,`, `{`, 1), "}") + `, "v": 1 }`
	for _, text := range []string{jobV1Golden, last} {
		back, err := Decode([]byte(text))
		must(t, err)
		if !reflect.DeepEqual(back, job()) {
			t.Errorf("decoded %+v", back.Notification)
		}
	}
}

// A job with a FID has version 3, so that builds without FIDs reject it by its version. Other
// jobs keep their version.
func TestJobWithFIDIsVersion3(t *testing.T) {
	t.Parallel()
	j := job()
	j.Notification.Targets[1] = Target{Platform: FCM, FID: "deQ7zv1tRk2bX0mYw9sLpA"}
	got, err := Encode(j)
	must(t, err)
	golden := strings.Replace(strings.Replace(jobV1Golden, `"token":"dGVzdA:APA91b"`, `"fid":"deQ7zv1tRk2bX0mYw9sLpA"`, 1), `{"v":1,`, `{"v":3,`, 1)
	if string(got) != golden {
		t.Errorf("encoded\n%s, want\n%s", got, golden)
	}
	back, err := Decode([]byte(golden))
	must(t, err)
	if !reflect.DeepEqual(back, j) {
		t.Errorf("decoded %+v", back.Notification)
	}
	for _, older := range []string{`{"v":1,`, `{"v":2,`} {
		if _, err := Decode([]byte(strings.Replace(golden, `{"v":3,`, older, 1))); err == nil || !strings.Contains(err.Error(), "/v") {
			t.Errorf("%s is read: %v", older, err)
		}
	}
	j.Notification = &Notification{ID: "i", App: "shop", User: "u", Title: "t", Targets: []Target{{Platform: FCM, FID: "f"}}}
	data, err := Encode(j)
	must(t, err)
	if got := OnlyRoute(data); got != "shop/fcm:fid" {
		t.Errorf("it is for %s only", got)
	}
}

func TestEncodeRefusesInvalidJob(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*Job)
		field  string
	}{
		"no notification":   {func(j *Job) { j.Notification = nil }, "/notification"},
		"no acceptance":     {func(j *Job) { j.AcceptedAt = time.Time{} }, "/accepted_at"},
		"accepted in 10000": {func(j *Job) { j.AcceptedAt = noon.AddDate(8000, 0, 0) }, "/accepted_at"},
		"no ID":             {func(j *Job) { j.Notification.ID = "" }, "/notification/id"},
		"a TTL":             {func(j *Job) { j.Notification.TTL = 1 }, "/notification/ttl"},
		"more than fits":    {func(j *Job) { j.Notification.Body = strings.Repeat("a", MaxEncodedSize) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job()
			test.change(j)
			_, err := Encode(j)
			if got := fields(faultsOf(t, err)); !slices.Equal(got, []string{test.field}) {
				t.Errorf("faults at %q, want one at %q: %v", got, test.field, err)
			}
		})
	}
}

func TestDecodeRejectsMalformedJob(t *testing.T) {
	t.Parallel()
	edit := func(old, new string) string {
		edited := strings.Replace(jobV1Golden, old, new, 1)
		if edited == jobV1Golden {
			t.Fatalf("%s is not in the job", old)
		}
		return edited
	}
	for name, test := range map[string]struct {
		data   string
		reason store.MalformedReason
		fields []string
	}{
		"empty":                {"", store.MalformedJSON, []string{""}},
		"followed by another":  {jobV1Golden + "{}", store.MalformedJSON, []string{""}},
		"no version":           {`{"notification":{}}`, store.MalformedVersion, nil},
		"version 4":            {edit(`"v":1`, `"v":4`), store.MalformedVersion, nil},
		"version 10":           {edit(`"v":1`, `"v":10`), store.MalformedVersion, nil},
		"version as text":      {edit(`"v":1`, `"v":"1"`), store.MalformedVersion, nil},
		"two versions":         {edit(`"v":1`, `"v":1,"v":2`), store.MalformedVersion, nil},
		"too large":            {edit(`{"v":1`, strings.Repeat(" ", MaxEncodedSize)+`{"v":1`), store.MalformedSize, nil},
		"no notification":      {`{"v":1,"accepted_at":"2026-11-20T12:00:00Z"}`, store.MalformedNotification, []string{"/notification"}},
		"notification null":    {`{"v":1,"accepted_at":"2026-11-20T12:00:00Z","notification":null}`, store.MalformedNotification, []string{"/notification"}},
		"no acceptance":        {edit(`"accepted_at":"2026-11-20T11:59:00.000001Z",`, ``), store.MalformedNotification, []string{"/accepted_at"}},
		"unknown in envelope":  {edit(`"v":1`, `"v":1,"extra":1`), store.MalformedNotification, []string{"/extra"}},
		"unknown field":        {edit(`"user"`, `"usr":"x","user"`), store.MalformedNotification, []string{"/notification/usr"}},
		"unknown in a target":  {edit(`"token":"dGVzdA`, `"topic":"x","token":"dGVzdA`), store.MalformedNotification, []string{"/notification/targets/1/topic"}},
		"types":                {edit(`"badge":3`, `"badge":"3","thread":4`), store.MalformedNotification, []string{"/notification/badge"}},
		"instant":              {edit(`"2026-11-20T12:00:00Z"`, `"noon"`), store.MalformedNotification, []string{"/notification/expires_at"}},
		"targets":              {edit(`[{"platform":"apns"`, `["x",{"platform":"apns"`), store.MalformedNotification, []string{"/notification/targets/0"}},
		"data":                 {edit(`"4711"}`, `4711}`), store.MalformedNotification, []string{"/notification/data/order"}},
		"invalid notification": {edit(`"user":"u1"`, `"user":""`), store.MalformedNotification, []string{"/notification/user"}},
		"invalid raw block":    {edit(`"title"`, `"apns":{"aps":{"sond":1}},"title"`), store.MalformedNotification, []string{"/notification/apns/aps/sond"}},
		"no ID":                {edit(`"id":"order-4711-shipped",`, ``), store.MalformedNotification, []string{"/notification/id"}},
		"a TTL":                {edit(`"expires_at":"2026-11-20T12:00:00Z"`, `"ttl":"2h"`), store.MalformedNotification, []string{"/notification/ttl"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Decode([]byte(test.data))
			var malformed *store.MalformedError
			if !errors.As(err, &malformed) {
				t.Fatalf("the error is %v, want a MalformedError", err)
			}
			if malformed.Reason != test.reason {
				t.Errorf("reason %q, want %q: %v", malformed.Reason, test.reason, err)
			}
			var f Faults
			if errors.As(err, &f); !slices.Equal(fields(f), test.fields) {
				t.Errorf("faults at %q, want %q: %v", fields(f), test.fields, err)
			}
		})
	}
}

// An older Producer accepted names with a space at the end, and its jobs must not be lost.
func TestJobWithSpaceAtEndOfNameIsDecoded(t *testing.T) {
	t.Parallel()
	n := sample()
	n.ID, n.User, n.Category, n.CollapseKey = "x ", "dup ", "news\u00a0", "k "
	payload, err := Encode(&Job{Notification: n, AcceptedAt: time.Now()})
	must(t, err)
	if job, err := Decode(payload); err != nil || job.Notification.User != "dup " {
		t.Error(err)
	}
}

func TestParseNamesFieldOfEachFault(t *testing.T) {
	t.Parallel()
	n, err := Parse([]byte(`{"app":"a","user":"u","targets":[{"platform":"fcm","token":"t"}],"ttl":"90m","badge":null}`))
	must(t, err)
	want := &Notification{App: "a", User: "u", Targets: []Target{{Platform: FCM, Token: "t"}}, TTL: Duration(90 * time.Minute)}
	if !reflect.DeepEqual(n, want) {
		t.Errorf("parsed %+v, want %+v", n, want)
	}
	for name, test := range map[string]struct {
		data   string
		fields []string
	}{
		"two values": {`{} {}`, []string{""}},
		"too large":  {strings.Repeat(" ", MaxEncodedSize+1), []string{""}},
		"several": {
			`{"ap":"x","badge":1.5,"targets":[{},{"token":1}],"ttl":"soon","not_before":5,"data":[]}`,
			[]string{"/ap", "/badge", "/data", "/not_before", "/targets/1/token", "/ttl"},
		},
		"what fits, and is wrong": {
			`{"app":"a","ttl":"5 minutes","targets":[],"collapse_key":"k\u0000"}`,
			[]string{"/ttl", "/user", "/collapse_key", "/targets"},
		},
		"what others are judged by": {`{"push_type":1,"targets":[]}`, []string{"/push_type"}},
		"no time to live":           {`{"app":"a","user":"u","title":"t","targets":[{"platform":"fcm","token":"t"}],"ttl":"0d"}`, []string{"/ttl"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(test.data))
			if got := fields(faultsOf(t, err)); !slices.Equal(got, test.fields) {
				t.Errorf("faults at %q, want %q: %v", got, test.fields, err)
			}
		})
	}
}

// The error of an invalid JSON text has the position of the error, also after earlier valid texts.
func TestInvalidJSONErrorHasPosition(t *testing.T) {
	t.Parallel()
	for range 10 {
		if _, err := Decode([]byte(jobV1Golden)); err != nil {
			t.Fatal(err)
		}
		_, err := Decode([]byte(`{"v":1,"accepted_at":!}`))
		if err == nil || !strings.Contains(err.Error(), "at byte 22") {
			t.Errorf("%v", err)
		}
	}
}

// The digest of a content is stored as long as its ID is known, also across an update: with a different
// digest, the new build would reject a repeated notification.
func TestContentDigestIsStableAcrossVersions(t *testing.T) {
	t.Parallel()
	badge := 3
	n := Notification{
		ID: "order-4711", App: "shop", User: "ada", Category: "orders", Priority: Bulk, Targets: []Target{{Platform: APNs, Token: "00fcab"}, {Platform: FCM, Token: "t:1"}},
		Title: "a <b> & c", Subtitle: "s", Body: "ü\u2028", Badge: &badge, Sound: "default", Image: "https://example.com/a.png", Thread: "t", Channel: "c",
		Data: map[string]string{"z": "1", "a": "2"}, PushType: "alert", CollapseKey: "k",
	}
	raw := n
	raw.APNs, raw.FCM = []byte(`{"b": [1.0, 2, 1e2], "a": {"z": null, "y": "é"}}`), []byte(`{"android":{"ttl":"3s"}}`)
	other := raw
	other.APNs = []byte(`{"a":{"y":"\u00e9","z":null},"b":[1,2,100]}`)
	null := n
	null.APNs = []byte("null")
	ends := n
	ends.ExpiresAt = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		n    Notification
		want string
	}{
		"plain": {n, "7a97366f26a87789"}, "that ends": {ends, "7a97366f26a87789"}, "without a block": {null, "7a97366f26a87789"},
		"with blocks": {raw, "07422c27555f6b63"}, "with the same blocks": {other, "07422c27555f6b63"},
	} {
		payload, err := Encode(&Job{Notification: &c.n, AcceptedAt: time.Now()})
		must(t, err)
		if digest, err := contentDigest(&c.n, payload); err != nil || fmt.Sprintf("%x", digest) != c.want {
			t.Errorf("%s: %x, want %s (%v)", name, digest, c.want, err)
		}
	}
}

// A lone surrogate is refused everywhere: decoding would make two different names equal.
func TestLoneSurrogateIsRefused(t *testing.T) {
	t.Parallel()
	for text, lone := range map[string]bool{
		`{"user":"\ud800"}`: true, `{"user":"\ud801"}`: true, `{"user":"\udc00"}`: true, `{"user":"\uD83D"}`: true,
		`{"user":"\ud83dx"}`: true, `{"user":"\ud83d\n"}`: true, `{"user":"\ud83d\ud83d\ude00"}`: true, `{"data":{"\udfff":""}}`: true,
		`{"user":"\ud83d\ude00"}`: false, `{"user":"😀\u0041"}`: false, `{"user":"\\ud800"}`: false, `{"user":"\\\\"}`: false, `{"user":"\uFFFD"}`: false, `{}`: false,
	} {
		if got := strictjson.CheckCharacters([]byte(text)) != nil; got != lone {
			t.Errorf("%s: %t", text, got)
		}
		if _, err := Parse([]byte(text)); (err != nil) != lone {
			t.Errorf("%s: %v", text, err)
		}
	}
	job, err := Encode(&Job{Notification: &Notification{ID: "1", App: "a", User: "half", Title: "t", Targets: []Target{{Platform: FCM, Token: "x"}}}, AcceptedAt: time.Now()})
	must(t, err)
	var malformed *store.MalformedError
	if _, err := Decode([]byte(strings.Replace(string(job), "half", `\ud800`, 1))); !errors.As(err, &malformed) || malformed.Reason != store.MalformedNotification {
		t.Errorf("from the queue: %v", err)
	}
}
