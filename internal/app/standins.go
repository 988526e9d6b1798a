package app

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// StandInOptions configure a stand-in. The zero value is ready to use.
type StandInOptions struct {
	Address string // "" for a free port of the loopback
	Latency standin.Latency
	Ledger  *standin.Ledger // nil for a new ledger
}

// A StandIn is a server in the place of a provider.
type StandIn interface {
	RespondAlways(standin.Answer)
	Ledger() *standin.Ledger
	Close() error
}

// StandIns are servers in the place of all providers.
type StandIns struct {
	Servers map[push.Platform]StandIn
	// App is the configuration of an app that sends to the stand-ins.
	App config.App
}

// StartStandIns starts one stand-in per platform, with its options, and writes the senders' files
// into the folder.
func StartStandIns(folder string, options func(*Platform) StandInOptions) (*StandIns, error) {
	s := &StandIns{Servers: map[push.Platform]StandIn{}}
	for _, p := range Platforms {
		server, err := p.standIn(folder, options(p), &s.App)
		if server != nil {
			s.Servers[p.Name] = server
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("cannot start the stand-ins: %w", err), s.Close())
		}
	}
	return s, nil
}

// Settings returns the environment variables that configure an app of that name to send to the
// stand-ins.
func (s *StandIns) Settings(name string) []string {
	prefix := "PUSHPACE_APPS__" + strings.ToUpper(name) + "__"
	all := []string{prefix + "SIMULATED=false"}
	for _, p := range s.App.Providers() {
		for _, setting := range PlatformOf(p.Platform).Settings(s.App) {
			all = append(all, prefix+strings.ToUpper(string(p.Platform)+"__"+setting[0])+"="+setting[1])
		}
	}
	return all
}

// Close closes the servers.
func (s *StandIns) Close() error {
	var errs []error
	for _, server := range s.Servers {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}
