package api

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/pushpace/pushpace/internal/base/filewatch"
	"github.com/pushpace/pushpace/internal/base/textfile"
	"github.com/pushpace/pushpace/internal/config"
)

// A certificate is the server's certificate, as its files have it. If a change of the files is
// invalid, the previous certificate stays in use.
type certificate struct {
	files   config.ServerTLS
	current atomic.Pointer[tls.Certificate]
	stop    context.CancelFunc
	running sync.WaitGroup
}

// watchCertificate reads the files, and reads them again after each change. Close it.
func watchCertificate(files config.ServerTLS, log *slog.Logger) (*certificate, error) {
	c := &certificate{files: files}
	watch := filewatch.New(files.CertFile, files.KeyFile)
	if err := c.read(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.running.Go(func() {
		watch.Run(ctx, filewatch.Interval, func() {
			if err := c.read(); err != nil {
				log.Error("the API's certificate changed but is not valid; the previous one stays in use", "error", err)
				return
			}
			log.Info("the API uses its changed certificate")
		})
	})
	return c, nil
}

func (c *certificate) read() error {
	pair, err := textfile.KeyPair(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		return err
	}
	c.current.Store(&pair)
	return nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}

func (c *certificate) close() {
	c.stop()
	c.running.Wait()
}
