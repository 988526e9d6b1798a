package limits

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
)

// A mute at any of its levels holds a notification, unless the notification passes and the mute
// has no All.
func TestMuteHoldsMatchingNotifications(t *testing.T) {
	t.Parallel()
	ada := at("shop", "ada", "news")
	for name, c := range map[string]struct {
		mute     Level
		all      bool
		of       Level
		critical bool
		want     bool
	}{
		"the app":                             {mute: at("shop", "", ""), of: ada, want: true},
		"another app":                         {mute: at("bank", "", ""), of: ada},
		"the user, in all apps":               {mute: at("", "ada", ""), of: ada, want: true},
		"another user":                        {mute: at("", "bob", ""), of: ada},
		"the user in the app":                 {mute: at("shop", "ada", ""), of: ada, want: true},
		"the user in another app":             {mute: at("bank", "ada", ""), of: ada},
		"the category, of everyone":           {mute: at("", "", "news"), of: ada, want: true},
		"another category":                    {mute: at("", "", "offers"), of: ada},
		"the category in the app":             {mute: at("shop", "", "news"), of: ada, want: true},
		"the user's category":                 {mute: at("", "ada", "news"), of: ada, want: true},
		"another user's category":             {mute: at("", "bob", "news"), of: ada},
		"all three":                           {mute: ada, of: ada, want: true},
		"a category, and it has none":         {mute: at("", "ada", "news"), of: at("shop", "ada", "")},
		"the user, and it has no category":    {mute: at("", "ada", ""), of: at("shop", "ada", ""), want: true},
		"critical":                            {mute: at("", "ada", ""), of: ada, critical: true},
		"critical, and all":                   {mute: at("", "ada", ""), all: true, of: ada, critical: true, want: true},
		"exempt":                              {mute: at("", "ada", ""), of: at("shop", "ada", "security")},
		"exempt, and all":                     {mute: at("", "ada", ""), all: true, of: at("shop", "ada", "security"), want: true},
		"exempt, and it is what is muted":     {mute: at("", "", "security"), of: at("shop", "ada", "security")},
		"exempt for the user alone":           {mute: at("shop", "", ""), of: at("shop", "vip", "news")},
		"not exempt for the others":           {mute: at("shop", "", ""), of: ada, want: true},
		"critical, of a category, in the app": {mute: at("shop", "", "news"), all: true, of: ada, critical: true, want: true},
	} {
		l := New(per(time.Second), map[string]throttle.Policy{"security": {Exempt: true}})
		vip := at("", "vip", "news")
		c.mute.Mute = true
		l.apply([]Change{
			{Level: vip, To: &Override{Level: vip, Policy: throttle.Policy{Exempt: true}}},
			{Level: c.mute, To: &Override{Level: c.mute, All: c.all}},
		})
		if got := l.Muted(c.of, c.critical); got != c.want {
			t.Errorf("%s: muted %t", name, got)
		}
		l.apply([]Change{{Level: c.mute}})
		if l.Muted(c.of, c.critical) {
			t.Errorf("%s: muted still", name)
		}
	}
}

func TestMutesInRedis(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		ctx, o, l := t.Context(), NewOverrides(client, redistest.Prefix(), 0), New(per(time.Second), nil)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		refresh := func() {
			t.Helper()
			_, err := o.Refresh(ctx, l)
			must(err)
		}
		user, ofShop := Level{User: "ada", Mute: true}, Level{App: "shop", Category: "news", Mute: true}
		must(o.Set(ctx, Override{Level: Level{User: "ada"}, Policy: per(time.Minute), By: "ann"}))
		must(o.Set(ctx, Override{Level: user, By: "ann"}))
		refresh()
		if !l.Muted(at("shop", "ada", ""), false) || l.Muted(at("shop", "ada", ""), true) || l.Muted(at("shop", "bob", "news"), false) {
			t.Error("ada alone is muted, and what is critical passes")
		}
		if l.Scopes("shop", "ada", "")[0].Policy.Rates[0].Period != time.Minute {
			t.Error("the override has gone")
		}
		must(o.Set(ctx, Override{Level: user, All: true, By: "ann"}))
		must(o.Set(ctx, Override{Level: ofShop, By: "bea", Until: l.Now().Add(time.Hour)}))
		refresh()
		if !l.Muted(at("shop", "ada", ""), true) || !l.Muted(at("shop", "bob", "news"), false) || l.NewestMute().Level != ofShop {
			t.Error("not as they were set")
		}
		if all, err := o.Mutes(ctx, at("shop", "ada", "news")); err != nil || len(all) != 2 || all[0].Level != ofShop || all[1].Level != user || !all[1].All || all[0].Source != FromAppCategory || all[0].Until.IsZero() {
			t.Errorf("%+v, %v", all, err)
		}
		if all, err := o.Mutes(ctx, at("", "ada", "")); err != nil || len(all) != 1 {
			t.Errorf("%+v, %v", all, err)
		}
		must(client.ZAdd(ctx, o.keys[1], redis.Z{Score: 1, Member: ofShop.Key()}).Err()) // the mute ends
		refresh()
		if l.Muted(at("shop", "bob", "news"), false) {
			t.Error("what has ended mutes still")
		}
		there, err := o.Unset(ctx, user, "ann")
		must(err)
		if refresh(); !there || l.Muted(at("shop", "ada", ""), true) {
			t.Error("unmuted, and muted still")
		}
		log, err := o.Log(ctx, 0, 10)
		must(err)
		if log[0].Why != "unset" || log[0].Level != user || !log[0].From.All || log[1].Why != "ended" {
			t.Errorf("%+v", log)
		}
	})
}
