package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
)

// Ports come from below those that the system gives to outgoing connections (from 32768 on Linux): a server that is stopped for a
// while finds its port still free.
const firstPort, lastPort = 15000, 32000

var errNoPort = errors.New("no free port on loopback")

// FreePort finds a port on loopback that nothing listens on, over TCP and UDP. Another process may take it before it is used.
func FreePort() (int, error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if free(fmt.Sprintf("127.0.0.1:%d", port)) {
			return port, nil
		}
	}
	return 0, errNoPort
}

func free(address string) bool {
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	udp, err := net.ListenPacket("udp", address)
	if err == nil {
		err = udp.Close()
	}
	return errors.Join(err, tcp.Close()) == nil
}

// retryBind repeats what ended because its port was taken by another process in between.
func retryBind(ctx context.Context, start func(context.Context) error) error {
	const attempts = 5
	var err error
	for range attempts {
		if err = start(ctx); !lostPort(err) {
			return err
		}
	}
	return err
}

func lostPort(err error) bool {
	var ended *exited
	return errors.As(err, &ended) && strings.Contains(ended.tail, "address already in use")
}
