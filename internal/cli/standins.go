package cli

import (
	"errors"
	"fmt"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// standInOptions are what a stand-in is told. The zero value is ready to use.
type standInOptions struct {
	address string // "" for a free port of the loopback
	latency standin.Latency
	ledger  *standin.Ledger // nil for one of its own
}

// A standInServer is in the place of a provider.
type standInServer interface {
	RespondAlways(standin.Answer)
	Ledger() *standin.Ledger
	Close() error
}

// standIns are servers in the place of all providers.
type standIns struct {
	servers map[push.Platform]standInServer
	// app is the configuration of an app that sends to them.
	app config.App
}

// startStandIns starts one for each platform, with what it is told, and writes what a
// sender needs into the folder.
func startStandIns(folder string, options func(*platform) standInOptions) (*standIns, error) {
	s := &standIns{servers: map[push.Platform]standInServer{}}
	for _, p := range platforms {
		server, err := p.standIn(folder, options(p), &s.app)
		if server != nil {
			s.servers[p.name] = server
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the stand-ins do not start: %w", err), s.close())
		}
	}
	return s, nil
}

func (s *standIns) close() error {
	var errs []error
	for _, server := range s.servers {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}
