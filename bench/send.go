package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	firebase "firebase.google.com/go/v4"
	"firebase.google.com/go/v4/messaging"
	"github.com/sideshow/apns2"
	"github.com/sideshow/apns2/payload"
	"github.com/sideshow/apns2/token"
	"golang.org/x/net/http2"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/push"
)

// sendBench compares the senders with the SDKs that they are built on, against
// stand-ins in another process. Every contestant composes each of its pushes,
// and sends one before it is measured.
func sendBench(ctx context.Context, r *run) (map[string]any, error) {
	figures := map[string]any{"apns": map[string]any{}, "fcm": map[string]any{}}
	for _, latency := range []time.Duration{0, 50 * time.Millisecond} {
		used, err := r.compareSenders(ctx, latency, figures)
		if err != nil {
			return nil, err
		}
		if latency == 0 {
			figures["standin_us_per_push"] = float64(used.CPU.Microseconds()) / float64(used.Pushes)
		}
	}
	beside, err := r.besideStuckAPNs(ctx)
	if err != nil {
		return nil, err
	}
	figures["fcm_beside_stuck_apns"] = beside
	return figures, nil
}

// compareSenders adds the figures of one latency, and answers what the stand-ins
// used for them.
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
	bareAPNs, err := bareAPNs(s.APNs)
	if err != nil {
		return usage{}, err
	}
	bareFCM, err := bareFCM(ctx, s.FCM)
	if err != nil {
		return usage{}, err
	}
	before, err := s.usage()
	if err != nil {
		return usage{}, err
	}
	for _, provider := range []struct {
		name      string
		ours      contestant
		bare      contestant
		tokenForm string
	}{
		{"apns", sending(ourAPNs, push.APNs), bareAPNs, "%064x"},
		{"fcm", sending(ourFCM, push.FCM), bareFCM, "device-%d:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx"},
	} {
		rates := map[string]any{}
		for _, inFlight := range []int{16, 64, 256} {
			tokens := make([]string, 1024)
			for i := range tokens {
				tokens[i] = fmt.Sprintf(provider.tokenForm, i)
			}
			medians, err := r.turns(ctx, inFlight, tokens, []string{"ours", "bare"}, map[string]contestant{"ours": provider.ours, "bare": provider.bare})
			if err != nil {
				return usage{}, fmt.Errorf("%s: %w", provider.name, err)
			}
			fmt.Fprintf(os.Stderr, "%s, %v, %d in flight: ours %.0f/s, bare %.0f/s\n", provider.name, latency, inFlight, medians["ours"], medians["bare"])
			rates[strconv.Itoa(inFlight)] = medians
		}
		figures[provider.name].(map[string]any)[strconv.FormatInt(latency.Milliseconds(), 10)+"ms"] = rates
	}
	after, err := s.usage()
	return usage{after.CPU - before.CPU, after.Pushes - before.Pushes}, err
}

// turns lets the contestants send in turns, and answers the median of each in
// pushes per second.
func (r *run) turns(ctx context.Context, inFlight int, tokens, names []string, contestants map[string]contestant) (map[string]float64, error) {
	for _, name := range names { // a cold client would open a connection for each push
		if err := contestants[name](ctx, tokens[0], next.Add(1)); err != nil {
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
			if round > 0 { // the first one warms up
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

// sending sends through one of our senders.
func sending(s providers.Sender, platform push.Platform) contestant {
	return func(ctx context.Context, token string, i int64) error {
		o := s.Send(ctx, &push.Notification{
			ID: id(i), App: "shop", User: "user", Title: benchTitle, Body: benchBody, Sound: "default",
		}, push.Target{Platform: platform, Token: token})
		if o.Kind != providers.Delivered {
			return fmt.Errorf("%v %s: %w", o.Kind, o.Reason, o.Err)
		}
		return nil
	}
}

func bareAPNs(c apns.Config) (contestant, error) {
	key, err := token.AuthKeyFromFile(c.KeyFile)
	if err != nil {
		return nil, err
	}
	roots, err := readRoots(c.RootCAFile)
	if err != nil {
		return nil, err
	}
	client := apns2.NewTokenClient(&token.Token{AuthKey: key, KeyID: c.KeyID, TeamID: c.TeamID})
	client.Host = c.Endpoint
	client.HTTPClient.Transport.(*http2.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
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
	// Without the bound net/http opens about one connection for each push at once.
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
