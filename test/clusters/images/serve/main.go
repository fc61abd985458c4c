// Command serve returns the name of its pod: over HTTP, at any path, and over UDP, where the
// question follows. Each answer is one line: the name of the pod and the ID of the cluster. The path
// /ready is for a readiness probe: it fails while there is a file /tmp/unready.
//
//	serve --http 80,8080 --udp 5300 [--linger 5s]
//
// The name of the pod is the host name, or POD_NAME; the ID of the cluster is CLUSTER_ID. After
// SIGTERM it continues for the time of --linger. By then, no traffic should arrive any more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	web := flag.String("http", "", "ports to answer HTTP at, separated by commas")
	udp := flag.String("udp", "", "ports to echo UDP at, separated by commas")
	linger := flag.Duration("linger", 0, "how long to go on after SIGTERM")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := server{whoami: whoami(), unready: "/tmp/unready", failed: make(chan error)}
	for _, port := range ports(*web) {
		go s.answer(":" + port)
	}
	for _, port := range ports(*udp) {
		go s.echo(":" + port)
	}
	select {
	case err := <-s.failed:
		log.Fatal(err)
	case <-ctx.Done():
	}
	<-time.After(*linger)
}

// whoami is read once: nothing of it changes.
func whoami() string {
	pod := os.Getenv("POD_NAME")
	if pod == "" {
		pod, _ = os.Hostname() // an empty name is an answer too
	}
	return pod + " " + os.Getenv("CLUSTER_ID")
}

func ports(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

type server struct {
	whoami  string
	unready string // a file
	failed  chan error
}

// answer serves HTTP in both families.
func (s server) answer(address string) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		s.failed <- err
		return
	}
	s.failed <- s.answerAt(listener)
}

func (s server) answerAt(listener net.Listener) error {
	h := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(s.unready); err == nil && r.URL.Path == "/ready" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprintln(w, s.whoami) // a client that has gone needs no answer
	})}
	return h.Serve(listener)
}

func (s server) echo(address string) {
	connection, err := net.ListenPacket("udp", address)
	if err != nil {
		s.failed <- err
		return
	}
	s.failed <- s.echoAt(connection)
}

// echoAt goes on after errors of single packets.
func (s server) echoAt(connection net.PacketConn) error {
	buffer := make([]byte, 64<<10)
	for {
		n, from, err := connection.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err == nil {
			_, _ = connection.WriteTo(fmt.Appendf(nil, "%s %s\n", s.whoami, strings.TrimSpace(string(buffer[:n]))), from)
		}
	}
}
