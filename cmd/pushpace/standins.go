package main

import (
	"errors"
	"fmt"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
)

// standIns are servers in the place of both providers.
type standIns struct {
	apns *apnstest.Server
	fcm  *fcmtest.Server
	// app is the configuration of an app that sends to them.
	app config.App
}

// startStandIns starts both, and writes what a sender needs into the folder.
func startStandIns(dir string, a apnstest.Options, f fcmtest.Options) (*standIns, error) {
	s := new(standIns)
	err := s.start(dir, a, f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the stand-ins do not start: %w", err), s.close())
	}
	return s, nil
}

func (s *standIns) start(dir string, a apnstest.Options, f fcmtest.Options) (err error) {
	if s.apns, err = apnstest.NewServer(a); err != nil {
		return err
	}
	if s.fcm, err = fcmtest.NewServer(f); err != nil {
		return err
	}
	apnsConfig, err := s.apns.WriteCredentials(dir)
	if err != nil {
		return err
	}
	fcmConfig, err := s.fcm.WriteCredentials(dir)
	if err != nil {
		return err
	}
	s.app = config.App{APNs: &config.APNs{Config: apnsConfig}, FCM: &config.FCM{Config: fcmConfig}}
	return nil
}

func (s *standIns) close() error {
	var errs []error
	if s.apns != nil {
		errs = append(errs, s.apns.Close())
	}
	if s.fcm != nil {
		errs = append(errs, s.fcm.Close())
	}
	return errors.Join(errs...)
}
