package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

const (
	// consoleBookings is how many notifications of the user wait whose page is timed, and
	// consoleAdmitted how many went before.
	consoleBookings, consoleAdmitted = 1000, 60
	// consoleSamples is how often each page is timed.
	consoleSamples = 20
	// consoleApart is the time between two samples: longer than what was read for one tab
	// is shown to another.
	consoleApart = 2 * time.Second
	// tabsFor is how long the commands are counted that tabs cost, and tabEvery how often
	// the console's script has each look.
	tabsFor, tabEvery = 30 * time.Second, 2 * time.Second
)

// consoleUser is the one who waits, in the category of consoleCategories.
const consoleUser = "waits"

var consoleCategories = map[string]any{"paced": map[string]any{"rates": []string{fmt.Sprintf("%d/1h", consoleAdmitted)}}}

// A pageBench asks the program as it is run for its pages.
type pageBench struct {
	stage
	program program
	client  *http.Client
	url     string
}

// consoleBench times pages by their first byte, counts what open tabs cost Redis, a
// script's own commands too, and what an open live view costs the dispatch of
// notifications.
func consoleBench(ctx context.Context, r *run) (figures map[string]any, err error) {
	s, err := r.openStage(ctx)
	if err != nil {
		return nil, err
	}
	defer s.clear()
	standIn, err := startStandIns(ctx, 0, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, standIn.close()) }()
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	program, err := buildProgram(ctx, standIn.dir, s, standIn.APNs, consoleCategories, listen)
	if err != nil {
		return nil, err
	}
	b := &pageBench{stage: s, program: program, client: &http.Client{Timeout: time.Minute}, url: "http://" + listen}
	defer b.client.CloseIdleConnections()
	figures = map[string]any{}
	if err := b.pages(ctx, figures); err != nil {
		return nil, err
	}
	s.clear()
	n := r.n
	if n == 0 {
		n = dispatchNotifications
	}
	rates := map[bool][]float64{}
	for i := range max(r.rounds, dispatchRounds) {
		for _, watched := range []bool{i%2 == 0, i%2 != 0} {
			rate, err := b.beside(ctx, watched, turn{stage: s, Contestant: "ours", N: n, APNs: standIn.APNs})
			if err != nil {
				return nil, err
			}
			rates[watched] = append(rates[watched], rate)
		}
	}
	figures["watch_over_none"] = round(median(rates[true])/median(rates[false]), 3)
	return figures, nil
}

// freeAddress returns one of this machine's where nobody listens.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// serve runs the program until stop is called, and returns once it answers.
func (b *pageBench) serve(ctx context.Context, args ...string) (stop func() error, err error) {
	stop, err = b.program.serve(ctx, args...)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		_, _, err := b.get(ctx, "/console/")
		if err == nil {
			return stop, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, errors.Join(err, stop())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// get returns a page, and after how long its first byte came.
func (b *pageBench) get(ctx context.Context, path string) (text []byte, took time.Duration, err error) {
	var first time.Time
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { first = time.Now() }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+path, nil)
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	answer, err := b.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, answer.Status)
	}
	return text, first.Sub(began), err
}

// pages adds the figures of a program with a user of whom many notifications wait, that
// has nothing else to do.
func (b *pageBench) pages(ctx context.Context, figures map[string]any) (err error) {
	stop, err := b.serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := b.wait(ctx); err != nil {
		return err
	}
	overview, ms, err := b.sample(ctx, "/console/")
	if err != nil {
		return err
	}
	figures["overview_ms"] = ms
	user, ms, err := b.sample(ctx, "/console/users/"+consoleUser+"?"+url.Values{"app": {app}, "category": {"paced"}}.Encode())
	if err != nil {
		return err
	}
	figures["user_1000_bookings_ms"], figures["user_page_kb"] = ms, kilobytes(len(user))
	assets, err := b.assets(ctx, overview, user)
	if err != nil {
		return err
	}
	figures["assets_kb"] = kilobytes(assets)
	fmt.Fprintf(os.Stderr, "first byte: overview %v ms, a user of whom %d wait %v ms, %v kB; assets %v kB\n",
		figures["overview_ms"], consoleBookings, ms, figures["user_page_kb"], figures["assets_kb"])

	costs := map[int]float64{}
	for _, tabs := range []int{0, 1, 10} {
		if costs[tabs], err = b.tabs(ctx, tabs); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%2d tabs: %.1f commands a second\n", tabs, costs[tabs])
	}
	figures["idle_commands_per_s"] = round(costs[0], 1)
	figures["tabs_10_over_1"] = round((costs[10]-costs[0])/(costs[1]-costs[0]), 2)
	return nil
}

func kilobytes(n int) float64 { return round(float64(n)/1000, 1) }

// wait has so many of the user's notifications wait.
func (b *pageBench) wait(ctx context.Context) error {
	client := b.stage.client(enqueuers)
	defer client.Close()
	shared, stop := pipeline.Share(client, pipeline.Options{Timeout: 2 * time.Second})
	defer stop()
	producer := push.NewProducer(shared, b.Prefix, time.Hour)
	err := each(ctx, enqueuers, consoleAdmitted+consoleBookings, func(ctx context.Context, i int) error {
		one := notification(i, 1)
		one.User, one.Category = consoleUser, "paced"
		_, err := producer.Enqueue(ctx, one)
		return err
	})
	if err != nil {
		return err
	}
	limiter, err := throttle.New(shared, throttle.Options{Prefix: b.Prefix})
	if err != nil {
		return err
	}
	defer limiter.Close()
	for deadline := time.Now().Add(turnLimit); ; {
		timeline, err := limiter.Timeline(ctx, throttle.Request{App: app, User: consoleUser, ID: "none", Scopes: []throttle.Scope{{Name: "paced"}}})
		if err != nil || len(timeline.Bookings) == consoleBookings {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d wait, not %d", len(timeline.Bookings), consoleBookings)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// sample returns the page, and the median of the ms until its first byte.
func (b *pageBench) sample(ctx context.Context, path string) (text []byte, ms float64, err error) {
	var samples []float64
	for range consoleSamples + 1 {
		var took time.Duration
		if text, took, err = b.get(ctx, path); err != nil {
			return nil, 0, err
		}
		samples = append(samples, float64(took.Microseconds())/1000)
		select {
		case <-time.After(consoleApart):
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
	}
	return text, round(median(samples[1:]), 2), nil // the first one connects
}

var assetURL = regexp.MustCompile(`/console/static/[\w.-]+`)

// assets returns the bytes of all files that the pages name.
func (b *pageBench) assets(ctx context.Context, pages ...[]byte) (sum int, err error) {
	seen := map[string]bool{}
	for _, page := range pages {
		for _, path := range assetURL.FindAllString(string(page), -1) {
			if seen[path] {
				continue
			}
			seen[path] = true
			text, _, err := b.get(ctx, path)
			if err != nil {
				return 0, err
			}
			sum += len(text)
		}
	}
	return sum, nil
}

// tabs returns how many commands a second Redis gets while so many tabs show the
// overview, each as old as it happens.
func (b *pageBench) tabs(ctx context.Context, n int) (float64, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var open sync.WaitGroup
	defer open.Wait()
	defer stop(nil)
	for i := range n {
		open.Go(func() {
			time.Sleep(tabEvery * time.Duration(i) / time.Duration(n))
			if err := b.look(ctx, "/console/"); err != nil {
				stop(err)
			}
		})
	}
	time.Sleep(tabEvery)
	before, err := b.commands(ctx)
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(tabsFor):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	after, err := b.commands(ctx)
	return float64(after-before) / tabsFor.Seconds(), err
}

// look keeps the page up to date until ctx ends.
func (b *pageBench) look(ctx context.Context, path string) error {
	ticker := time.NewTicker(tabEvery)
	defer ticker.Stop()
	for {
		if _, _, err := b.get(ctx, path); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// commands is how many Redis has carried out so far.
func (b *pageBench) commands(ctx context.Context) (int64, error) {
	client := b.stage.client(1)
	defer client.Close()
	info, err := client.Info(ctx, "stats").Result()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(field(info, "total_commands_processed"), 10, 64)
}

// beside returns the rate of dispatch beside a console, watched or not. The console is
// there in both cases, and a new one each time, as a watch outlasts a look.
func (b *pageBench) beside(ctx context.Context, watched bool, t turn) (rate float64, err error) {
	stop, err := b.serve(ctx, "--only", "api")
	if err != nil {
		return 0, err
	}
	defer b.clear()
	defer func() { err = errors.Join(err, stop()) }()
	looking, end := context.WithCancel(ctx)
	var looked sync.WaitGroup
	var failed error
	if watched {
		looked.Go(func() { failed = b.look(looking, "/console/live") })
	}
	got, err := b.play(ctx, t)
	end()
	looked.Wait()
	if err := errors.Join(err, failed); err != nil {
		return 0, err
	}
	if watched {
		if text, _, err := b.get(ctx, "/console/live"); err != nil || !bytes.Contains(text, []byte("<tbody>")) {
			return 0, errors.Join(err, errors.New("nothing was seen live"))
		}
	}
	rate = float64(t.N) / got.Work.Time.Seconds()
	fmt.Fprintf(os.Stderr, "dispatch, watched %-5t %6.0f/s\n", watched, rate)
	return rate, nil
}
