package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/app"
	"github.com/pushpace/pushpace/internal/config"
)

// A place is where a command finds pushpace: an HTTP API, or the Redis of a configuration.
type place struct {
	cmd                         *cobra.Command
	config                      *string
	api, tokenFile, authorities string
}

// The environment variables behind --api and --token-file.
const (
	apiVariable   = "PUSHPACE_API"
	tokenVariable = "PUSHPACE_API_TOKEN"
)

// placeFlags adds the flags that choose the place.
func placeFlags(cmd *cobra.Command) *place {
	p := &place{cmd: cmd, config: configFlag(cmd)}
	f := cmd.Flags()
	f.StringVar(&p.api, "api", "", "use the HTTP API at this `URL` instead of Redis; PUSHPACE_API by default")
	f.StringVar(&p.tokenFile, "token-file", "", "the `FILE` that holds the API's token, which PUSHPACE_API_TOKEN can hold instead")
	f.StringVar(&p.authorities, "ca-file", "", "a `FILE` of authorities to trust for the API instead of the system's")
	return p
}

// remote returns the URL of the API; "" for Redis. Flags come before the environment, in which
// the API comes before a configuration.
func (p *place) remote() string {
	given := p.cmd.Flags().Changed
	if given("api") || given("config") {
		return p.api
	}
	return os.Getenv(apiVariable)
}

// open returns a client of the API at the URL; without a URL, of an API in this process.
func (p *place) open(ctx context.Context) (*apiclient.Client, error) {
	given := p.cmd.Flags().Changed
	if given("config") && given("api") {
		return nil, misusedf("--config and --api exclude each other: --config names the Redis to connect to, --api the HTTP API")
	}
	url := p.remote()
	if url == "" {
		for _, name := range []string{"token-file", "ca-file"} {
			if given(name) {
				return nil, misusedf("--%s is for the HTTP API: give the API by --api or %s", name, apiVariable)
			}
		}
		by := app.UserAtHost()
		if f := p.cmd.Flags().Lookup("by"); f != nil {
			if by = f.Value.String(); by == "" {
				return nil, misusedf("--by: is empty: the log needs the operator's name")
			}
		}
		return app.OpenLocal(ctx, *p.config, by)
	}
	if f := p.cmd.Flags().Lookup("by"); f != nil && f.Changed {
		return nil, misusedf("--by cannot be given with the HTTP API: the audit log gets the API token's name")
	}
	o := apiclient.Options{URL: url, CAFile: p.authorities, Token: os.Getenv(tokenVariable)}
	if p.tokenFile != "" {
		token, err := config.ReadSecret(p.tokenFile)
		if err != nil {
			return nil, misusedf("--token-file: %s: %w", p.tokenFile, err)
		}
		o.Token = string(token)
	}
	client, err := apiclient.New(o)
	if err != nil {
		return nil, misused(err)
	}
	return client, nil
}
