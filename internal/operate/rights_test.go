package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/operate/operatetest"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// newService returns a service over Redis, of the world's two apps.
func newService(t *testing.T, client redis.UniversalClient) (*operate.Service, operate.Options) {
	t.Helper()
	o := operatetest.Options(t, client, limits.New(throttle.Policy{}, nil))
	operatetest.TwoApps(&o)
	s := operate.New(o)
	t.Cleanup(s.Close)
	return s, o
}

// An asking is a principal's operator with the app that it asks about.
type asking struct {
	context.Context
	*operate.Operator
	app string
	// log has the changes of both apps' limits.
	log []limits.Change
}

func (a asking) notification() *push.Notification {
	return &push.Notification{App: a.app, User: "u", Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}
}

func (a asking) override() limits.Override {
	return limits.Override{Level: limits.Level{App: a.app, User: a.app + "-user"}, Policy: rate}
}

// A try asks one of the operator's methods.
type try struct {
	action *operate.Action
	ask    func(asking) error
	// hidden is the error for another app's items; nil if the answer leaves the items out instead.
	// every marks a method that no token for some apps may use.
	hidden error
	every  bool
}

var (
	rate   = throttle.Policy{Rates: []throttle.Rate{{Count: 5, Period: time.Minute}}}
	others = new(operate.OthersError)
)

// errTold means that an answer contains an item of the other app.
var errTold = errors.New("the answer shows the other app")

// tries are all queries and actions. operatetest defines the IDs.
var tries = map[string]try{
	"Enqueue": {operate.Enqueue, func(a asking) error { return a.Enqueue(a, a.notification()).Err }, others, false},
	"EnqueueAll": {operate.Enqueue, func(a asking) error {
		return a.EnqueueAll(a, []operate.Parsed{{Notification: a.notification()}})[0].Err
	}, others, false},
	"Status":       {operate.Status, func(a asking) error { return errOf(a.Status(a, push.Ref{ID: a.app + "-waits"})) }, push.ErrUnknownID, false},
	"Notification": {operate.Look, func(a asking) error { return errOf(a.Notification(a, push.Ref{ID: a.app + "-waits"})) }, push.ErrUnknownID, false},
	"Knows": {operate.Look, func(a asking) error {
		notification, _, err := a.Knows(a, a.app+"-waits")
		_, letter, err2 := a.Knows(a, a.app+"-letter")
		return cmpOr(err, err2, told(notification && a.app == operatetest.Other), told(letter && a.app == operatetest.Other))
	}, nil, false},
	"Cancel":     {operate.Cancel, func(a asking) error { return a.Cancel(a, push.Ref{ID: a.app + "-cancelled"}, 0) }, push.ErrUnknownID, false},
	"Withdraw":   {operate.Withdraw, func(a asking) error { return errOf(a.Withdraw(a, a.app, a.app+"-user", push.Group{Thread: "t"}, "")) }, others, false},
	"CancelEach": {operate.CancelEach, func(a asking) error { return a.CancelEach(a, []push.Ref{{ID: a.app + "-each"}})[0] }, push.ErrUnknownID, false},
	"Waiting":    {operate.Look, func(a asking) error { return a.leaks(a.Waiting(a, inspect.Selection{}, "")) }, nil, false},
	"Counts": {operate.Look, func(a asking) error {
		counts, err := a.Counts(a)
		return cmpOr(err, told(counts != nil && !a.SeesAll()))
	}, nil, false},
	"Timeline":     {operate.Look, func(a asking) error { return errOf(a.Timeline(a, a.app, a.app+"-user", nil)) }, others, false},
	"User":         {operate.Look, func(a asking) error { return errOf(a.User(a, a.app, a.app+"-user", nil)) }, others, false},
	"CategoriesOf": {operate.Look, func(a asking) error { return errOf(a.CategoriesOf(a, a.app, a.app+"-user")) }, others, false},

	"Overrides":   {operate.Look, func(a asking) error { return a.leaks(a.Overrides(a, limits.Level{}, "", 100)) }, nil, false},
	"Limits":      {operate.Look, func(a asking) error { return errOf(a.Limits(a, limits.Level{App: a.app})) }, others, false},
	"Override":    {operate.Look, func(a asking) error { return errOf(a.Override(a, limits.Level{App: a.app})) }, others, false},
	"Below":       {operate.Look, func(a asking) error { return errOf(a.Below(limits.Level{App: a.app})) }, others, false},
	"SetLimit":    {operate.SetLimit, func(a asking) error { return errOf(a.SetLimit(a, a.override())) }, others, false},
	"Import":      {operate.ImportLimits, func(a asking) error { return a.Import(a, []limits.Override{a.override()}) }, others, false},
	"CheckImport": {operate.ImportLimits, func(a asking) error { return a.CheckImport(a, []limits.Override{a.override()}) }, others, false},
	"UnsetLimit":  {operate.UnsetLimit, func(a asking) error { return a.UnsetLimit(a, limits.Level{App: a.app, Category: "unset"}) }, others, false},
	"Preview": {operate.Look, func(a asking) error {
		_, err := a.Preview(a, limits.Level{App: a.app}, &limits.Override{Level: limits.Level{App: a.app}, Policy: rate})
		return err
	}, others, false},
	"LimitsLog": {operate.Look, func(a asking) error { return a.leaks(a.LimitsLog(a, 0, 100)) }, nil, false},
	"UndoOf":    {operate.UndoLimit, func(a asking) error { return errOf(a.UndoOf(a, changeOf(a, "looked at"))) }, operate.ErrNoChange, false},
	"UndoLimit": {operate.UndoLimit, func(a asking) error { return a.UndoLimit(a, changeOf(a, "undone")) }, operate.ErrNoChange, false},
	"Quotas":    {operate.Look, func(a asking) error { return a.leaks(a.Quotas(a)) }, nil, false},
	"RecentQuotas": {operate.Look, func(a asking) error {
		all, _, err := a.RecentQuotas(a)
		return cmpOr(err, told(a.app == operatetest.Other && slices.ContainsFunc(all, func(q operate.RecentQuota) bool { return slices.Contains(q.Apps, a.app) })))
	}, nil, false},

	"Letters":     {operate.Look, func(a asking) error { return a.leaks(a.Letters(a, "", 100)) }, nil, false},
	"Letter":      {operate.Look, func(a asking) error { return errOf(a.Letter(a, push.Ref{ID: a.app + "-letter"})) }, store.ErrNoLetter, false},
	"Requeue":     {operate.Requeue, func(a asking) error { return a.Requeue(a, push.Ref{ID: a.app + "-requeued"}) }, store.ErrNoLetter, false},
	"RequeueEach": {operate.RequeueEach, func(a asking) error { return a.RequeueEach(a, []push.Ref{{ID: a.app + "-requeues"}})[0] }, store.ErrNoLetter, false},
	"Purge":       {operate.Purge, func(a asking) error { return a.Purge(a, push.Ref{ID: a.app + "-purged"}) }, store.ErrNoLetter, false},
	"PurgeEach":   {operate.PurgeEach, func(a asking) error { return a.PurgeEach(a, []push.Ref{{ID: a.app + "-purges"}})[0] }, store.ErrNoLetter, false},

	"Pauses":    {operate.Look, func(a asking) error { return a.leaks(a.Pauses(a)) }, nil, false},
	"PausesNow": {operate.Look, func(a asking) error { return a.leaks(a.PausesNow(a)) }, nil, false},
	"Ending":    {operate.Resume, func(a asking) error { return errOf(a.Ending(a, pause.Pause{App: a.app, Category: "ending"})) }, others, false},
	"Pause":     {operate.Pause, func(a asking) error { return errOf(a.Pause(a, pause.Pause{App: a.app, Category: "x"})) }, others, false},
	"MayPause":  {operate.Pause, func(a asking) error { return a.MayPause(pause.Pause{App: a.app}) }, others, false},
	"Resume":    {operate.Resume, func(a asking) error { return errOf(a.Resume(a, pause.Pause{App: a.app, Category: "resumed"})) }, others, false},

	"Overview":     {operate.Look, func(a asking) error { return a.leaks(a.Overview(a)) }, nil, false},
	"LastOverview": {operate.Look, func(a asking) error { return a.leaks(a.LastOverview()) }, nil, false},
	"Actions":      {operate.Look, func(a asking) error { return a.leaks(a.Actions(a, "", 1000)) }, nil, false},
	"Workers":      {operate.Look, func(a asking) error { return errOf(a.Workers(a)) }, nil, false},
	"Throughput":   {operate.Look, func(a asking) error { _, err := a.Throughput(a, operate.Hour); return err }, others, true},
	"ConfirmLoss": {operate.ConfirmLoss, func(a asking) error {
		if _, err := a.ConfirmLoss(a, time.Now()); !errors.Is(err, control.ErrNoLoss) {
			return err
		}
		return nil
	}, others, true},
	"Audit": {operate.Look, func(a asking) error { return errOf(a.Audit(a)) }, others, true},
}

// decides are the methods that only describe the principal or the configuration.
var decides = []string{"Sees", "SeesAll", "Only", "MayNarrow", "KnownApp", "Apps", "Categories", "Now", "OwnsPause"}

// leaks returns err, or errTold if the answer contains an item of the other app.
func (a asking) leaks(answer any, err error) error {
	text, _ := json.Marshal(answer)
	return cmpOr(err, told(a.app == operatetest.Other && strings.Contains(string(text), operatetest.Other)))
}

func told(is bool) error {
	if is {
		return errTold
	}
	return nil
}

func cmpOr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// changeOf returns the version of the newest change of the limits of the app's category.
func changeOf(a asking, category string) int64 {
	i := slices.IndexFunc(a.log, func(c limits.Change) bool { return c.App == a.app && c.Category == category })
	if i < 0 {
		return 0
	}
	return a.log[i].Version
}

// Service exports no field through which a caller could bypass the checks.
func TestServiceExportsNoField(t *testing.T) {
	t.Parallel()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[operate.Service]()) {
		if field.IsExported() && len(field.Index) == 1 || field.Anonymous {
			t.Errorf("Service.%s is a surface's to use", field.Name)
		}
	}
}

// Each query and action checks the principal's role and apps.
func TestEachActionChecksPrincipal(t *testing.T) {
	for i := range reflect.TypeFor[*operate.Operator]().NumMethod() {
		name := reflect.TypeFor[*operate.Operator]().Method(i).Name
		if _, tried := tries[name]; !tried && !slices.Contains(decides, name) {
			t.Errorf("%s is not tried", name)
		}
	}
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s, o := newService(t, client)
		operatetest.FillOwn(t, o)
		operatetest.FillOther(t, o)
		log, err := s.As(operatetest.Root, "").LimitsLog(t.Context(), 0, 100)
		must(t, err)
		ask := func(c try, who operate.Principal, app string) error {
			return c.ask(asking{t.Context(), s.As(who, ""), app, log})
		}
		roles := map[*operate.Action][]config.Role{
			operate.Enqueue: {config.Producer, config.Operator}, operate.Cancel: {config.Producer, config.Operator}, operate.Withdraw: {config.Producer, config.Operator},
			operate.Status: {config.Producer, config.Viewer, config.Operator}, operate.Look: {config.Viewer, config.Operator},
		}
		for name, c := range tries {
			may := roles[c.action]
			if may == nil {
				may = []config.Role{config.Operator}
			}
			for _, role := range []config.Role{"", config.Producer, config.Viewer, config.Operator} {
				if slices.Contains(may, role) {
					continue
				}
				if err := ask(c, operate.Principal{Name: "x", Role: role}, operatetest.Own); !errors.As(err, new(*operate.RoleError)) {
					t.Errorf("%s, as %q: %v", name, role, err)
				}
			}
			its := operate.Principal{Name: "ann", Role: config.Operator, Apps: []string{operatetest.Own}}
			err := ask(c, its, operatetest.Other)
			if c.hidden == others && !errors.As(err, new(*operate.OthersError)) || c.hidden != others && !errors.Is(err, c.hidden) {
				t.Errorf("%s, of another's app: %v", name, err)
			}
			if err := ask(c, its, operatetest.Own); err != nil && !c.every {
				t.Errorf("%s, of its own app: %v", name, err)
			}
			if err := ask(c, operatetest.Root, operatetest.Other); err != nil && !errors.Is(err, errTold) {
				t.Errorf("%s, of any app: %v", name, err)
			}
		}
	})
}

// LimitsLog finds the changes that a principal sees among any number of other changes.
func TestLimitsLogHidesOtherApps(t *testing.T) {
	t.Parallel()
	s, with := newService(t, redistest.Own(t))
	all := make([]limits.Override, 2*1000+10) // more than two pages of the log
	for i := range all {
		all[i] = limits.Override{Level: limits.Level{App: operatetest.Other, User: fmt.Sprint(i)}, Policy: rate, By: "eve"}
		if i < 2 || i == 1500 {
			all[i].App = operatetest.Own
		}
	}
	must(t, with.Overrides.Import(t.Context(), all))
	its := s.As(operate.Principal{Role: config.Viewer, Apps: []string{operatetest.Own}}, "")
	var users []string
	for before := int64(0); len(users) < 5; {
		page, err := its.LimitsLog(t.Context(), before, 2)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, c := range page {
			users, before = append(users, c.User), c.Version
		}
	}
	if !slices.Equal(users, []string{"1500", "1", "0"}) {
		t.Errorf("%q", users)
	}
}

// A principal's own app that is not configured yet is refused with an error that names no other
// app.
func TestErrorOfUnconfiguredAppNamesNoOtherApp(t *testing.T) {
	t.Parallel()
	s, _ := newService(t, redistest.Own(t))
	a := asking{t.Context(), s.As(operate.Principal{Role: config.Operator, Apps: []string{"new", operatetest.Own}}, ""), "new", nil}
	for _, name := range []string{"Enqueue", "SetLimit", "Preview", "Pause", "Timeline"} {
		if err := tries[name].ask(a); err == nil || strings.Contains(err.Error(), "secret") || errors.As(err, new(*operate.OthersError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The overrides of one user are found among many others, in more than one page, and each page
// costs a bounded number of reads.
func TestOverridesOfAUserAreFoundAmongMany(t *testing.T) {
	t.Parallel()
	client, asked := redistest.Own(t), new(redistest.Trips)
	client.AddHook(asked)
	s, options := newService(t, client)
	all := make([]limits.Override, 2000)
	for i := range all {
		all[i] = limits.Override{Level: limits.Level{User: fmt.Sprint("user-", i)}, Policy: rate, By: "ann"}
	}
	must(t, options.Overrides.Import(t.Context(), all))
	o := s.As(operate.Principal{Role: config.Viewer}, "")
	found, cursor := 0, ""
	for pages := 1; ; pages++ {
		asked.Take()
		page, err := o.Overrides(t.Context(), limits.Level{User: "user-7"}, cursor, 10)
		must(t, err)
		if n := len(asked.Take()); n > 20 {
			t.Fatalf("page %d costs %d round trips", pages, n)
		}
		found += len(page.Overrides)
		if cursor = page.Next; cursor != "" {
			continue
		}
		if found == 0 || pages == 1 {
			t.Errorf("%d are found on %d pages", found, pages)
		}
		return
	}
}
