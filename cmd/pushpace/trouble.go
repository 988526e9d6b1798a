package main

import (
	"strconv"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
)

// trouble is what a stand-in answers to every push, from a flag: a status, or
// trouble with the connection. It answers nil for "".
func trouble(flag, text string, retryAfter time.Duration) (*standin.Answer, error) {
	if text == "" {
		return nil, nil
	}
	if status, err := strconv.Atoi(text); err == nil {
		if status < 300 || status > 599 {
			return nil, misusedf("%s: want a status from 300 to 599", flag)
		}
		return &standin.Answer{Status: status, RetryAfter: retryAfter}, nil
	}
	a := new(standin.Answer)
	if err := a.Fault.UnmarshalText([]byte(text)); err != nil {
		return nil, misusedf("%s: want a status, close, goaway, goaway-unprocessed, black-hole, page or drain", flag)
	}
	return a, nil
}
