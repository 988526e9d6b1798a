//go:build unix

package redisserver

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort finds a port without a listener; with bus, port+10000 has no listener either. The ports
// are below the system's ephemeral range, so that between a stop and a launch no process gets one
// by chance. reserve reports whether a port may be used; nil allows any port.
func FreePort(bus bool, reserve func(port int) bool) (int, error) {
	for range 100 {
		port := 12000 + rand.IntN(10000)
		if isFree(port) && (!bus || isFree(port+10000)) && (reserve == nil || reserve(port)) {
			return port, nil
		}
	}
	return 0, errors.New("no port from 12000 to 21999 is free")
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}
