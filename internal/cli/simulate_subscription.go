package cli

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/app"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

// subscriptionName matches a name that an endpoint can hold unescaped.
var subscriptionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

func newSimulateSubscription() *cobra.Command {
	service := "google"
	cmd := &cobra.Command{
		Use:   "subscription NAME",
		Short: "Print the subscription of a browser that the stand-in knows",
		Long: `subscription prints a browser's PushSubscription.toJSON for a browser of this name. Every
stand-in of simulate can decrypt its messages.`,
		Example: `  pushpace simulate subscription laptop > laptop.json`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !subscriptionName.MatchString(args[0]) {
				return misusedf("NAME: want 1 to 128 letters, digits, - and _")
			}
			of := push.PlatformWebPush + ":" + push.Platform(service)
			if !push.Known(of) {
				return misusedf("--service: want one of %s", strings.Join(pushServices(), ", "))
			}
			target := webpushtest.Subscription(webpushtest.Endpoint(of, args[0]))
			return printJSON(cmd.OutOrStdout(), app.Subscription{Endpoint: target.Token, Keys: target.Keys})
		},
	}
	cmd.Flags().StringVar(&service, "service", service, fmt.Sprintf("the browser's push `SERVICE`: %s", strings.Join(pushServices(), ", ")))
	complete(cmd, "service", pushServices()...)
	return cmd
}

// pushServices returns the names of the browsers' push services.
func pushServices() (names []string) {
	for _, service := range push.Services(push.PlatformWebPush) {
		names = append(names, strings.TrimPrefix(string(service), string(push.PlatformWebPush)+":"))
	}
	return names
}
