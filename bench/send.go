package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	firebase "firebase.google.com/go/v4"
	"firebase.google.com/go/v4/messaging"
	"github.com/sideshow/apns2"
	"github.com/sideshow/apns2/payload"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

// sendBench compares the senders with the SDKs that they are built on, against stand-ins in a
// second process; Web Push has no SDK to compare with. Every contestant renders each of its
// pushes, and sends one push before the measurement.
func sendBench(ctx context.Context, r *run) (map[string]any, error) {
	figures := map[string]any{"apns": map[string]any{}, "fcm": map[string]any{}, "webpush": map[string]any{}}
	for _, latency := range []time.Duration{0, 50 * time.Millisecond} {
		used, err := r.compareSenders(ctx, latency, figures)
		if err != nil {
			return nil, err
		}
		if latency == 0 {
			figures["standin_us_per_push"] = float64(used.CPU.Microseconds()) / float64(used.Pushes)
		}
	}
	return figures, nil
}

// compareSenders adds the figures for one latency of the stand-ins, and returns their usage.
func (r *run) compareSenders(ctx context.Context, latency time.Duration, figures map[string]any) (used usage, err error) {
	s, err := startStandIns(ctx, latency, "")
	if err != nil {
		return usage{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	ourAPNs, err := apns.New(s.APNs)
	if err != nil {
		return usage{}, err
	}
	defer ourAPNs.Close()
	ourFCM, err := fcm.New(ctx, s.FCM)
	if err != nil {
		return usage{}, err
	}
	defer ourFCM.Close()
	ourWebPush, err := webpush.New(s.WebPush)
	if err != nil {
		return usage{}, err
	}
	defer ourWebPush.Close()
	bareAPNs, err := bareAPNs(s.APNs)
	if err != nil {
		return usage{}, err
	}
	bareFCM, err := bareFCM(ctx, s.FCM)
	if err != nil {
		return usage{}, err
	}
	subscribed := make(map[string]push.Target, devices) // by endpoint
	for _, device := range tokens("device-%d") {
		target := webpushtest.Subscription(webpushtest.Endpoint(push.WebPushGoogle, device))
		subscribed[target.Token] = target
	}
	before, err := s.usage()
	if err != nil {
		return usage{}, err
	}
	for _, provider := range []struct {
		name        string
		tokens      []string
		names       []string
		contestants map[string]contestant
	}{
		{"apns", tokens("%064x"), []string{"ours", "bare"}, map[string]contestant{
			"ours": sending(ourAPNs, on(push.APNs)), "bare": bareAPNs,
		}},
		{"fcm", tokens("device-%d:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx"), []string{"ours", "bare"}, map[string]contestant{
			"ours": sending(ourFCM, on(push.FCM)), "bare": bareFCM,
		}},
		{"webpush", slices.Collect(maps.Keys(subscribed)), []string{"ours"}, map[string]contestant{
			"ours": sending(ourWebPush, func(endpoint string) push.Target { return subscribed[endpoint] }),
		}},
	} {
		rates := map[string]any{}
		for _, inFlight := range []int{16, 64, 256} {
			medians, err := r.turns(ctx, inFlight, provider.tokens, provider.names, provider.contestants)
			if err != nil {
				return usage{}, fmt.Errorf("%s: %w", provider.name, err)
			}
			fmt.Fprintf(os.Stderr, "%s, %v, %d in flight:", provider.name, latency, inFlight)
			for _, name := range provider.names {
				fmt.Fprintf(os.Stderr, " %s %.0f/s", name, medians[name])
			}
			fmt.Fprintln(os.Stderr)
			rates[strconv.Itoa(inFlight)] = medians
		}
		figures[provider.name].(map[string]any)[strconv.FormatInt(latency.Milliseconds(), 10)+"ms"] = rates
	}
	after, err := s.usage()
	return usage{after.CPU - before.CPU, after.Pushes - before.Pushes}, err
}

// devices is the number of devices that each contestant sends to.
const devices = 1024

// tokens returns the devices' tokens.
func tokens(form string) []string {
	all := make([]string, devices)
	for i := range all {
		all[i] = fmt.Sprintf(form, i)
	}
	return all
}

// turns makes the contestants send in turns, and returns each one's median rate in pushes per
// second.
func (r *run) turns(ctx context.Context, inFlight int, tokens, names []string, contestants map[string]contestant) (map[string]float64, error) {
	for _, name := range names { // a cold client would open a connection for each push
		if err := contestants[name](ctx, tokens[0], lastNumber.Add(1)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	samples := map[string][]float64{}
	for round := range r.rounds + 1 {
		for turn := range names {
			name := names[(turn+round)%len(names)]
			rate, err := pound(ctx, inFlight, tokens, contestants[name])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if round > 0 { // the first round warms up
				samples[name] = append(samples[name], rate)
			}
		}
	}
	medians := map[string]float64{}
	for name, rates := range samples {
		medians[name] = float64(int64(median(rates)))
	}
	return medians, nil
}

const (
	benchTitle = "Your order is on its way"
	benchBody  = "It leaves our warehouse today and arrives on Friday between nine and noon."
)

// on returns a function that makes a target of a token, for platforms without other fields.
func on(platform push.Platform) func(token string) push.Target {
	return func(token string) push.Target { return push.Target{Platform: platform, Token: token} }
}

// sending sends through one of our senders.
func sending(s providers.Sender, target func(token string) push.Target) contestant {
	return func(ctx context.Context, token string, i int64) error {
		o := s.Send(ctx, &push.Notification{
			ID: id(i), App: "shop", User: "user", Title: benchTitle, Body: benchBody, Sound: "default",
		}, target(token), providers.Departure{})
		if o.Kind != providers.Delivered {
			return fmt.Errorf("%v %s: %w", o.Kind, o.Reason, o.Err)
		}
		return nil
	}
}

func bareAPNs(c apns.Config) (contestant, error) {
	client, err := newStockClient(c)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, device string, i int64) error {
		response, err := client.PushWithContext(ctx, &apns2.Notification{
			DeviceToken: device, Topic: c.Topic, PushType: apns2.PushTypeAlert, Priority: apns2.PriorityHigh,
			Payload: payload.NewPayload().AlertTitle(benchTitle).AlertBody(benchBody).Sound("default").Custom(push.IDKey, id(i)),
		})
		if err == nil && !response.Sent() {
			err = errors.New(response.Reason)
		}
		return err
	}, nil
}

func bareFCM(ctx context.Context, c fcm.Config) (contestant, error) {
	key, err := os.ReadFile(c.CredentialsFile)
	if err != nil {
		return nil, err
	}
	account, err := google.JWTConfigFromJSON(key, "https://www.googleapis.com/auth/firebase.messaging")
	if err != nil {
		return nil, err
	}
	roots, err := readRoots(c.RootCAFile)
	if err != nil {
		return nil, err
	}
	// Without MaxConnsPerHost net/http opens about one connection for each push in flight.
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, MaxConnsPerHost: 4}
	tokens := account.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: transport}))
	app, err := firebase.NewApp(ctx, &firebase.Config{ProjectID: "pushpace-test"}, option.WithEndpoint(c.Endpoint+"/v1"),
		option.WithHTTPClient(&http.Client{Transport: &oauth2.Transport{Source: tokens, Base: transport}}))
	if err != nil {
		return nil, err
	}
	client, err := app.Messaging(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, device string, i int64) error {
		_, err := client.Send(ctx, &messaging.Message{
			Token:        device,
			Notification: &messaging.Notification{Title: benchTitle, Body: benchBody},
			Data:         map[string]string{push.IDKey: id(i)},
			Android:      &messaging.AndroidConfig{Priority: "high", Notification: &messaging.AndroidNotification{Sound: "default"}},
		})
		return err
	}, nil
}

func readRoots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return roots, nil
}
