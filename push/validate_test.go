package push

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// sample returns a valid notification for APNs and FCM that uses every common field.
func sample() *Notification {
	badge := 3
	return &Notification{
		ID: "order-4711-shipped", App: "shop", User: "u1", Category: "orders", Priority: Default,
		Targets: []Target{{Platform: APNs, Token: "00fc13adff785122"}, {Platform: FCM, Token: "dGVzdA:APA91b"}},
		Title:   "Shipped", Subtitle: "Order 4711", Body: "It is <on> its way & \"soon\" there", Badge: &badge,
		Sound: "default", Image: "https://example.com/a.png", Thread: "orders", Channel: "orders",
		Data: map[string]string{"order": "4711"}, CollapseKey: "order-4711",
		NotBefore: noon, ExpiresAt: noon.Add(2 * time.Hour),
	}
}

// only removes the sample's targets on other platforms.
func only(p Platform) func(*Notification) {
	return func(n *Notification) {
		n.Targets = slices.DeleteFunc(n.Targets, func(t Target) bool { return t.Platform != p })
	}
}

// silent removes all content that the sample shows.
func silent(pushType string) func(*Notification) {
	return func(n *Notification) {
		n.PushType = pushType
		n.Title, n.Subtitle, n.Body, n.Badge, n.Sound, n.Image, n.Thread, n.Channel = "", "", "", nil, "", "", "", ""
	}
}

func faultsOf(t *testing.T, err error) Faults {
	t.Helper()
	var f Faults
	if err != nil && !errors.As(err, &f) {
		t.Fatalf("the error is a %T, want Faults: %v", err, err)
	}
	return f
}

func fields(f Faults) []string {
	var names []string
	for _, fault := range f {
		names = append(names, fault.Field)
	}
	return names
}

func TestValidateAcceptsValidNotification(t *testing.T) {
	t.Parallel()
	live := `{"aps":{"event":"update","timestamp":1700000000,"content-state":{"score":1}}}`
	for name, change := range map[string]func(*Notification){
		"every common field":         func(*Notification) {},
		"no ID, generated later":     func(n *Notification) { n.ID = "" },
		"the least":                  func(n *Notification) { *n = Notification{App: "a", User: "u", Targets: n.Targets, Title: "t"} },
		"longest names":              func(n *Notification) { n.App, n.User = strings.Repeat("é", 64), strings.Repeat("u", 128) },
		"longest ID":                 func(n *Notification) { n.ID = strings.Repeat("~", 128) },
		"100 targets":                func(n *Notification) { n.Targets = targets(100) },
		"FID":                        func(n *Notification) { n.Targets[1] = Target{Platform: FCM, FID: "deQ7zv1tRk2bX0mYw9sLpA"} },
		"equal FID and token":        func(n *Notification) { n.Targets = []Target{{Platform: FCM, FID: "a"}, {Platform: FCM, Token: "a"}} },
		"badge removed":              func(n *Notification) { *n.Badge = 0 },
		"ttl":                        func(n *Notification) { n.ExpiresAt, n.TTL = time.Time{}, Duration(time.Hour) },
		"ttl beyond FCM's":           func(n *Notification) { n.ExpiresAt, n.TTL = time.Time{}, Duration(9000*time.Hour) },
		"FCM's names without FCM":    func(n *Notification) { only(APNs)(n); n.Data["from"] = "x" },
		"APNs' name without APNs":    func(n *Notification) { only(FCM)(n); n.Data["aps"] = "x" },
		"background":                 silent(PushBackground),
		"controls":                   silent(PushControls),
		"Live Activity":              func(n *Notification) { silent(PushLiveActivity)(n); n.Title = "t"; n.APNs = json.RawMessage(live) },
		"Live Activity, FCM only":    func(n *Notification) { silent(PushLiveActivity)(n); only(FCM)(n) },
		"texts with spaces at ends":  func(n *Notification) { n.Title, n.Subtitle, n.Body = " Shipped ", " ", "soon\n" },
		"null blocks":                func(n *Notification) { n.APNs, n.FCM = json.RawMessage("null"), json.RawMessage(" null ") },
		"custom APNs keys":           func(n *Notification) { n.APNs = json.RawMessage(`{"mine":{"a":[1,null,{"b":null}]},"gone":null}`) },
		"nulls remove":               func(n *Notification) { n.APNs = json.RawMessage(`{"aps":{"sound":null}}`) },
		"alert as text":              func(n *Notification) { n.APNs = json.RawMessage(`{"aps":{"alert":"hi"}}`) },
		"every aps key":              func(n *Notification) { n.APNs = json.RawMessage(everyAPS) },
		"every FCM field":            func(n *Notification) { n.FCM = json.RawMessage(everyFCM) },
		"white space is not counted": func(n *Notification) { n.FCM = json.RawMessage("{" + strings.Repeat(" ", MaxEncodedSize) + "}") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := sample()
			change(n)
			if err := n.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestValidateNamesFieldOfEachFault(t *testing.T) {
	t.Parallel()
	apns := func(raw string) func(*Notification) {
		return func(n *Notification) { n.APNs = json.RawMessage(raw) }
	}
	fcm := func(raw string) func(*Notification) {
		return func(n *Notification) { n.FCM = json.RawMessage(raw) }
	}
	live := func(raw string) func(*Notification) {
		return func(n *Notification) { silent(PushLiveActivity)(n); n.APNs = json.RawMessage(raw) }
	}
	for name, test := range map[string]struct {
		change func(*Notification)
		field  string
	}{
		"ID, space at its end":           {func(n *Notification) { n.ID = "x " }, "/id"},
		"app, space at its end":          {func(n *Notification) { n.App = "x " }, "/app"},
		"user, space at its end":         {func(n *Notification) { n.User = "x " }, "/user"},
		"category, space at its end":     {func(n *Notification) { n.Category = "x " }, "/category"},
		"collapse key, space at its end": {func(n *Notification) { n.CollapseKey = "x " }, "/collapse_key"},
		"thread, space at its end":       {func(n *Notification) { n.Thread = "x " }, "/thread"},
		"channel, space at its end":      {func(n *Notification) { n.Channel = "x " }, "/channel"},
		"sound, space at its end":        {func(n *Notification) { n.Sound = "x " }, "/sound"},
		"digest key, space at its end":   {func(n *Notification) { n.CollapseKey, n.Digest = "", &Digest{Key: "x "} }, "/digest/key"},
		"zone, space at its end":         {func(n *Notification) { n.TimeZone = "Europe/Berlin " }, "/time_zone"},
		"image, white space at end":      {func(n *Notification) { n.Image += "\u00a0" }, "/image"},

		"long ID":             {func(n *Notification) { n.ID = strings.Repeat("a", 129) }, "/id"},
		"ID not ASCII":        {func(n *Notification) { n.ID = "é" }, "/id"},
		"no app":              {func(n *Notification) { n.App = "" }, "/app"},
		"long app":            {func(n *Notification) { n.App = strings.Repeat("a", 129) }, "/app"},
		"no user":             {func(n *Notification) { n.User = "" }, "/user"},
		"user not UTF-8":      {func(n *Notification) { n.User = "\xff" }, "/user"},
		"long category":       {func(n *Notification) { n.Category = strings.Repeat("a", 129) }, "/category"},
		"unknown priority":    {func(n *Notification) { n.Priority = "urgent" }, "/priority"},
		"no target":           {func(n *Notification) { n.Targets = nil }, "/targets"},
		"101 targets":         {func(n *Notification) { n.Targets = targets(101) }, "/targets"},
		"unknown platform":    {func(n *Notification) { n.Targets[1].Platform = "wns" }, "/targets/1/platform"},
		"no token":            {func(n *Notification) { n.Targets[1].Token = "" }, "/targets/1/token"},
		"long token":          {func(n *Notification) { n.Targets[1].Token = strings.Repeat("a", 4097) }, "/targets/1/token"},
		"token with a space":  {func(n *Notification) { n.Targets[1].Token = "a b" }, "/targets/1/token"},
		"FID and token":       {func(n *Notification) { n.Targets[1].FID = "f" }, "/targets/1/fid"},
		"long FID":            {func(n *Notification) { n.Targets[1] = Target{Platform: FCM, FID: strings.Repeat("a", 4097)} }, "/targets/1/fid"},
		"FID with a space":    {func(n *Notification) { n.Targets[1] = Target{Platform: FCM, FID: "a b"} }, "/targets/1/fid"},
		"FID for APNs":        {func(n *Notification) { n.Targets[0] = Target{Platform: APNs, FID: "f"} }, "/targets/0/fid"},
		"FID for browsers":    {func(n *Notification) { b := browser(); b.FID = "f"; n.Targets[1] = b }, "/targets/1/fid"},
		"FID and APNs token":  {func(n *Notification) { n.Targets[0].FID = "f" }, "/targets/0/fid"},
		"duplicate FID":       {func(n *Notification) { f := Target{Platform: FCM, FID: "f"}; n.Targets = []Target{f, f} }, "/targets/1"},
		"APNs token not hex":  {func(n *Notification) { n.Targets[0].Token = "xyz" }, "/targets/0/token"},
		"APNs token with @":   {func(n *Notification) { n.Targets[0].Token = "ab@1" }, "/targets/0/token"},
		"APNs token with DLE": {func(n *Notification) { n.Targets[0].Token = "ab\x10" }, "/targets/0/token"},
		"duplicate FCM":       {func(n *Notification) { n.Targets = append(n.Targets, n.Targets[1]) }, "/targets/2"},
		"duplicate APNs, case": {func(n *Notification) {
			n.Targets = append(n.Targets, Target{Platform: APNs, Token: "00FC13ADFF785122"})
		}, "/targets/2"},
		"unknown push type":      {func(n *Notification) { n.PushType = "silent" }, "/push_type"},
		"background with title":  {func(n *Notification) { silent(PushBackground)(n); n.Title = "t" }, "/title"},
		"background with alert":  {func(n *Notification) { silent(PushBackground)(n); apns(`{"aps":{"alert":"a"}}`)(n) }, "/apns/aps/alert"},
		"voip with sound":        {func(n *Notification) { silent(PushVoIP)(n); n.Sound = "s" }, "/sound"},
		"activity with subtitle": {func(n *Notification) { live(everyAPS)(n); n.Subtitle = "s" }, "/subtitle"},
		"long collapse key":      {func(n *Notification) { n.CollapseKey = strings.Repeat("a", 65) }, "/collapse_key"},
		"collapse key, control":  {func(n *Notification) { n.CollapseKey = "a\rb" }, "/collapse_key"},
		"negative ttl":           {func(n *Notification) { n.ExpiresAt, n.TTL = time.Time{}, -1 }, "/ttl"},
		"ttl and expires_at":     {func(n *Notification) { n.TTL = 1 }, "/ttl"},
		"expires at not_before":  {func(n *Notification) { n.ExpiresAt = n.NotBefore }, "/expires_at"},
		"expires in year 10000":  {func(n *Notification) { n.ExpiresAt = noon.AddDate(8000, 0, 0) }, "/expires_at"},
		"image over http":        {func(n *Notification) { n.Image = "http://example.com/a.png" }, "/image"},
		"image without host":     {func(n *Notification) { n.Image = "https:///a.png" }, "/image"},
		"badge beyond int32":     {func(n *Notification) { *n.Badge = math.MaxInt32 + 1 }, "/badge"},
		"negative badge":         {func(n *Notification) { *n.Badge = -1 }, "/badge"},
		"body not UTF-8":         {func(n *Notification) { n.Body = "\xff" }, "/body"},
		"data: from":             {func(n *Notification) { n.Data["from"] = "x" }, "/data/from"},
		"data: google.":          {func(n *Notification) { n.Data["google.c"] = "x" }, "/data/google.c"},
		"data: gcm.":             {func(n *Notification) { n.Data["gcm./~x"] = "x" }, "/data/gcm.~1~0x"},
		"data: aps":              {func(n *Notification) { n.Data["aps"] = "x" }, "/data/aps"},
		"data: image twice":      {func(n *Notification) { n.Data["image"] = "x" }, "/data/image"},
		"data: the ID's key":     {func(n *Notification) { n.Data[IDKey] = "x" }, "/data/pushpace_id"},
		"data: no name":          {func(n *Notification) { n.Data[""] = "x" }, "/data/"},
		"data: not UTF-8":        {func(n *Notification) { n.Data["a"] = "\xff" }, "/data/a"},

		"apns is no object":          {apns(`[]`), "/apns"},
		"apns is two values":         {apns(`{}{}`), "/apns"},
		"apns: the ID's key":         {apns(`{"pushpace_id":null}`), "/apns/pushpace_id"},
		"apns: aps is no object":     {apns(`{"aps":1}`), "/apns/aps"},
		"apns: unknown aps key":      {apns(`{"aps":{"sond":"x"}}`), "/apns/aps/sond"},
		"apns: unknown, null":        {apns(`{"aps":{"sond":null}}`), "/apns/aps/sond"},
		"apns: unknown alert key":    {apns(`{"aps":{"alert":{"tilte":"x"}}}`), "/apns/aps/alert/tilte"},
		"apns: unknown sound key":    {apns(`{"aps":{"sound":{"loud":1}}}`), "/apns/aps/sound/loud"},
		"apns: volume":               {apns(`{"aps":{"sound":{"volume":1.5}}}`), "/apns/aps/sound/volume"},
		"apns: badge as text":        {apns(`{"aps":{"badge":"3"}}`), "/apns/aps/badge"},
		"apns: badge below 0":        {apns(`{"aps":{"badge":-3}}`), "/apns/aps/badge"},
		"apns: mutable-content":      {apns(`{"aps":{"mutable-content":true}}`), "/apns/aps/mutable-content"},
		"apns: interruption-level":   {apns(`{"aps":{"interruption-level":"loud"}}`), "/apns/aps/interruption-level"},
		"apns: item of loc-args":     {apns(`{"aps":{"alert":{"loc-args":["a",1]}}}`), "/apns/aps/alert/loc-args/1"},
		"activity without event":     {live(`{"aps":{"timestamp":1,"content-state":{}}}`), "/apns/aps/event"},
		"activity without timestamp": {live(`{"aps":{"event":"end","content-state":{}}}`), "/apns/aps/timestamp"},
		"activity without state":     {live(`{"aps":{"event":"end","timestamp":1}}`), "/apns/aps/content-state"},
		"activity: fraction":         {live(`{"aps":{"event":"end","timestamp":1.5,"content-state":{}}}`), "/apns/aps/timestamp"},
		"start without attributes":   {live(`{"aps":{"event":"start","timestamp":1,"content-state":{},"attributes-type":"A"}}`), "/apns/aps/attributes"},
		"start without their type":   {live(`{"aps":{"event":"start","timestamp":1,"content-state":{},"attributes":{}}}`), "/apns/aps/attributes-type"},

		"fcm is no object":           {fcm(`"x"`), "/fcm"},
		"fcm: topic":                 {fcm(`{"topic":"x"}`), "/fcm/topic"},
		"fcm: unknown field":         {fcm(`{"android":{"prority":"high"}}`), "/fcm/android/prority"},
		"fcm: unknown priority":      {fcm(`{"android":{"priority":"higher"}}`), "/fcm/android/priority"},
		"fcm: ttl below a nano":      {fcm(`{"android":{"ttl":"3.0000000001s"}}`), "/fcm/android/ttl"},
		"fcm: ttl negative":          {fcm(`{"android":{"ttl":"-1s"}}`), "/fcm/android/ttl"},
		"fcm: ttl just beyond":       {fcm(`{"android":{"ttl":"2419200.000000001s"}}`), "/fcm/android/ttl"},
		"fcm: ttl as a number":       {fcm(`{"android":{"ttl":3}}`), "/fcm/android/ttl"},
		"fcm: data as a number":      {fcm(`{"data":{"a":1}}`), "/fcm/data/a"},
		"fcm: data reserved":         {fcm(`{"android":{"data":{"from":"x"}}}`), "/fcm/android/data/from"},
		"fcm: the ID's key":          {fcm(`{"webpush":{"data":{"pushpace_id":"x"}}}`), "/fcm/webpush/data/pushpace_id"},
		"fcm: color":                 {fcm(`{"android":{"notification":{"color":"red"}}}`), "/fcm/android/notification/color"},
		"fcm: event_time":            {fcm(`{"android":{"notification":{"event_time":"2026-11-20 20:00:00"}}}`), "/fcm/android/notification/event_time"},
		"fcm: event_time too fine":   {fcm(`{"android":{"notification":{"event_time":"2026-11-20T20:00:00.0000000001Z"}}}`), "/fcm/android/notification/event_time"},
		"fcm: vibrate_timings":       {fcm(`{"android":{"notification":{"vibrate_timings":["1s","0.5"]}}}`), "/fcm/android/notification/vibrate_timings/1"},
		"fcm: lights without colour": {fcm(`{"android":{"notification":{"light_settings":{"light_on_duration":"1s","light_off_duration":"1s"}}}}`), "/fcm/android/notification/light_settings/color"},
		"fcm: too bright":            {fcm(`{"android":{"notification":{"light_settings":{"color":{"red":1.01},"light_on_duration":"1s","light_off_duration":"1s"}}}}`), "/fcm/android/notification/light_settings/color/red"},
		"fcm: unknown alert key":     {fcm(`{"apns":{"payload":{"aps":{"alert":{"sumary-arg":"x"}}}}}`), "/fcm/apns/payload/aps/alert/sumary-arg"},
		"fcm: aps key":               {fcm(`{"apns":{"payload":{"aps":{"sond":"x"}}}}`), "/fcm/apns/payload/aps/sond"},
		"fcm: link over http":        {fcm(`{"webpush":{"fcm_options":{"link":"http://a"}}}`), "/fcm/webpush/fcm_options/link"},

		"too large in all":   {func(n *Notification) { n.Body = strings.Repeat("a", MaxEncodedSize) }, ""},
		"too large for APNs": {func(n *Notification) { only(APNs)(n); n.Body = strings.Repeat("a", 4096) }, "/body"},
		"too large for FCM":  {func(n *Notification) { only(FCM)(n); n.Body = strings.Repeat("a", 4096) }, "/body"},
		"too much data":      {func(n *Notification) { only(FCM)(n); n.Data = map[string]string{"k": strings.Repeat("a", 4096)} }, "/data"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := sample()
			test.change(n)
			got := faultsOf(t, n.Validate())
			if len(got) != 1 || got[0].Field != test.field {
				t.Errorf("faults at %q, want one at %q: %v", fields(got), test.field, got)
			}
		})
	}
}

func TestValidateReportsAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	n := sample()
	n.App, n.Priority, n.Targets[0].Token = "", "urgent", "xyz"
	n.Body = strings.Repeat("a", 5000)
	n.APNs = json.RawMessage(`{"headers":{},"aps":{"sond":"x","alert":{"b":1,"a":1}}}`)
	n.FCM = json.RawMessage(`{"token":"x"}`)
	want := []string{
		"/app", "/priority", "/targets/0/token", "/fcm/token",
		"/apns/aps/alert/a", "/apns/aps/alert/b", "/apns/aps/sond", "/apns/headers", "/body", "/body",
	}
	if got := fields(faultsOf(t, n.Validate())); !slices.Equal(got, want) {
		t.Errorf("faults at %q, want %q", got, want)
	}
}

func TestFaultsAreBounded(t *testing.T) {
	t.Parallel()
	n := sample()
	var raw strings.Builder
	for i := range 150 {
		fmt.Fprintf(&raw, `,"k%d":1`, i)
	}
	n.APNs = json.RawMessage(`{"aps":{` + raw.String()[1:] + `}}`)
	f := n.faults()
	if len(f) != 100 {
		t.Errorf("%d faults, want 100", len(f))
	}
	if text := f.Error(); !strings.HasSuffix(text, "; and 92 more") {
		t.Errorf("the error's text ends otherwise: %s", text)
	}
}

// No fault contains a token or a text of the notification.
func TestFaultsContainNoSecret(t *testing.T) {
	t.Parallel()
	n := sample()
	n.Targets = []Target{{Platform: APNs, Token: "secret-token"}, {Platform: FCM, Token: "secret token"}, {Platform: "secret-x", Token: "secret"}, {Platform: FCM, FID: "secret fid"}, {Platform: FCM, FID: "secret:APA91b"}}
	n.Title, n.Image, n.PushType, n.Priority = "secret\xff", "secret:", "secret", "secret"
	n.Data = map[string]string{"from": "secret"}
	n.APNs = json.RawMessage(`{"aps":{"badge":"secret","interruption-level":"secret"}}`)
	n.FCM = json.RawMessage(`{"android":{"ttl":"secret"},"token":"secret","fid":"secret"}`)
	err := n.Validate()
	if f := faultsOf(t, err); len(f) < 10 {
		t.Fatalf("only %d faults: %v", len(f), f)
	}
	for _, fault := range faultsOf(t, err) {
		if strings.Contains(fault.Field+fault.Problem, "secret") {
			t.Errorf("a fault repeats a value: %v", fault)
		}
	}
}

// targets returns n different targets on FCM.
func targets(n int) []Target {
	ts := make([]Target, n)
	for i := range ts {
		ts[i] = Target{Platform: FCM, Token: fmt.Sprint("token-", i)}
	}
	return ts
}

const everyAPS = `{"aps":{
	"alert":{"title":{"loc-key":"k","loc-args":["a"]},"subtitle":"s","body":"b","launch-image":"l",
		"title-loc-key":"k","title-loc-args":["a"],"subtitle-loc-key":"k","subtitle-loc-args":["a"],
		"loc-key":"k","loc-args":["a"],"action":"a","action-loc-key":"k","summary-arg":"a","summary-arg-count":2,"sound":"s"},
	"badge":0,"sound":{"critical":1,"name":"n","volume":0.5},"thread-id":"t","category":"c",
	"content-available":1,"mutable-content":0,"target-content-id":"i","interruption-level":"time-sensitive",
	"relevance-score":0.3,"filter-criteria":"f","url-args":["a"],"content-changed":true,
	"event":"start","timestamp":1700000000,"content-state":{"a":[1]},"stale-date":1700000001,"dismissal-date":1700000002,
	"attributes-type":"T","attributes":{"b":{}},"input-push-token":1,"input-push-channel":"ch"}}`

const everyFCM = `{
	"data":{"k":"v"},"notification":{"title":"t","body":"b","image":"https://example.com/i"},"fcm_options":{"analytics_label":"l"},
	"android":{"collapse_key":"c","priority":"normal","ttl":"3.5s","restricted_package_name":"p","data":{"k":"v"},
		"fcm_options":{"analytics_label":"l"},"direct_boot_ok":true,"bandwidth_constrained_ok":true,"restricted_satellite_ok":false,
		"notification":{"title":"t","body":"b","icon":"i","color":"#00aaFF","sound":"s","tag":"t","click_action":"c",
			"body_loc_key":"k","body_loc_args":["a"],"title_loc_key":"k","title_loc_args":["a"],"channel_id":"c",
			"image":"https://example.com/i","ticker":"t","sticky":true,"event_time":"2026-11-20T20:00:00.5+01:00",
			"local_only":true,"notification_priority":"PRIORITY_HIGH","vibrate_timings":["1s","0.05s","0.000000000s"],
			"default_vibrate_timings":true,"default_sound":true,
			"light_settings":{"color":{"red":0,"green":0.01,"blue":1},"light_on_duration":"1s","light_off_duration":"0.500000000s"},
			"default_light_settings":true,"visibility":"PUBLIC","notification_count":3,"proxy":"DENY","bypass_proxy_notification":true}},
	"webpush":{"headers":{"TTL":"5"},"data":{"k":"v"},"fcm_options":{"link":"https://example.com/","analytics_label":"l"},
		"notification":{"actions":[{"action":"a","title":"t","icon":"i"}],"title":"t","body":"b","icon":"i","badge":"b",
			"dir":"auto","data":{"a":1},"image":"i","lang":"en","renotify":true,"requireInteraction":true,"silent":true,
			"tag":"t","timestamp":1700000000000,"vibrate":[100,50],"custom":[1]}},
	"apns":{"headers":{"apns-priority":"5"},"live_activity_token":"l","fcm_options":{"analytics_label":"l","image":"https://example.com/i"},
		"payload":{"aps":{"alert":{"title":"t","subtitle":"s","body":"b","loc-key":"k","loc-args":["a"],"title-loc-key":"k",
			"title-loc-args":["a"],"subtitle-loc-key":"k","subtitle-loc-args":["a"],"action-loc-key":"k","launch-image":"l","summary-arg":"a"},
			"badge":1,"sound":"s","interruption-level":"passive"},"custom":{"a":1}}}}`

// A notification fits, with any content, if surelyFits returns true.
func TestNotificationFitsIfSurelyFits(t *testing.T) {
	t.Parallel()
	badge := math.MaxInt
	for _, text := range []string{"\x01", "\xff", "\u2028", "\"", "é", "x", "<"} {
		for size := range 600 {
			value := strings.Repeat(text, size/len(text))
			n := &Notification{
				App: "a", User: "u", Category: value, Targets: []Target{{Platform: APNs, Token: "ab"}, {Platform: FCM, Token: "t"}}, Title: value, Subtitle: value, Body: value,
				Badge: &badge, Sound: value, Image: value, Thread: value, Channel: value, CollapseKey: value,
				Data: map[string]string{value + "k": value, value: "", "": value},
			}
			if !n.surelyFits() {
				break
			}
			id := strings.Repeat("0", 36)
			if _, err := n.apnsPayload(id); err != nil {
				t.Errorf("%d bytes of %q: %v", size, text, err)
			}
			if _, err := n.largestFCMMessage(id); err != nil {
				t.Errorf("%d bytes of %q: %v", size, text, err)
			}
			n.ID = strings.Repeat("&", MaxIDBytes)
			if _, err := n.webPushPayload(n.ID); n.surelyFits() && err != nil {
				t.Errorf("%d bytes of %q: %v", size, text, err)
			}
		}
	}
	if (&Notification{Body: strings.Repeat("x", 4000)}).surelyFits() || (&Notification{APNs: json.RawMessage("{}")}).surelyFits() {
		t.Error("something that has to be rendered is not")
	}
	if !(&Notification{Title: "Shipped", Body: strings.Repeat("x", 400)}).surelyFits() {
		t.Error("an ordinary notification is rendered")
	}
}

// An alert that shows nothing on one of its platforms is refused. If an older version has queued it, it
// is still delivered.
func TestAlertWithoutContentIsRefused(t *testing.T) {
	t.Parallel()
	apns, fcm := []Target{{Platform: APNs, Token: "ab"}}, []Target{{Platform: FCM, Token: "t"}}
	both := []Target{apns[0], fcm[0]}
	data, badge := map[string]string{"k": "v"}, 0
	for name, test := range map[string]struct {
		n     Notification
		shows bool
	}{
		"nothing":                       {Notification{Targets: both}, false},
		"title":                         {Notification{Targets: both, Title: "t"}, true},
		"body":                          {Notification{Targets: both, Body: "b"}, true},
		"subtitle alone":                {Notification{Targets: apns, Subtitle: "s"}, true},
		"badge alone":                   {Notification{Targets: apns, Badge: &badge}, true},
		"sound alone":                   {Notification{Targets: apns, Sound: "s"}, true},
		"data for FCM":                  {Notification{Targets: fcm, Data: data}, true},
		"data for both":                 {Notification{Targets: both, Data: data}, false},
		"data in the background":        {Notification{Targets: both, Data: data, PushType: PushBackground}, true},
		"nothing for FCM":               {Notification{Targets: fcm, Channel: "c"}, false},
		"image for APNs":                {Notification{Targets: apns, Image: "https://a"}, false},
		"a key in APNs' block":          {Notification{Targets: apns, APNs: json.RawMessage(`{"aps":{"alert":{"loc-key":"K"}}}`)}, true},
		"a title's key":                 {Notification{Targets: apns, APNs: json.RawMessage(`{"aps":{"alert":{"title-loc-key":"K"}}}`)}, true},
		"text in APNs' block":           {Notification{Targets: apns, APNs: json.RawMessage(`{"aps":{"alert":"hi"}}`)}, true},
		"an alert of arguments":         {Notification{Targets: apns, APNs: json.RawMessage(`{"aps":{"alert":{"loc-args":["a"]}}}`)}, false},
		"an empty text":                 {Notification{Targets: apns, APNs: json.RawMessage(`{"aps":{"alert":""}}`)}, false},
		"content-available":             {Notification{Targets: apns, APNs: json.RawMessage(`{"aps":{"content-available":1}}`)}, false},
		"alert removed":                 {Notification{Targets: apns, Title: "t", APNs: json.RawMessage(`{"aps":{"alert":null}}`)}, false},
		"aps removed":                   {Notification{Targets: apns, Title: "t", APNs: json.RawMessage(`{"aps":null}`)}, false},
		"a key in FCM's block":          {Notification{Targets: fcm, FCM: json.RawMessage(`{"android":{"notification":{"body_loc_key":"k"}}}`)}, true},
		"an empty block for FCM":        {Notification{Targets: fcm, FCM: json.RawMessage(`{"notification":null}`)}, false},
		"a Live Activity shows a state": {Notification{Targets: apns, PushType: PushLiveActivity, APNs: json.RawMessage(`{"aps":{"event":"end","timestamp":1,"content-state":{}}}`)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := test.n
			n.App, n.User = "a", "u"
			switch f := faultsOf(t, n.Validate()); {
			case test.shows && len(f) > 0:
				t.Errorf("refused: %v", f)
			case !test.shows && (len(f) != 1 || f[0].Field != "/push_type"):
				t.Errorf("faults %v, want one at /push_type", f)
			}
			if f := n.faults(); len(f) > 0 {
				t.Errorf("what is on the queue is refused: %v", f)
			}
		})
	}
}
