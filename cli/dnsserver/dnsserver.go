// Package dnsserver asks one DNS server of a cluster, through a port-forward of its API server. So no pod
// has to be created, and each server is asked, where a Service would choose one.
package dnsserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/clusterset-dns/multicluster/cli/clusters"
)

// Pod is a DNS server, and its port for DNS over TCP: a port-forward carries no UDP.
type Pod struct {
	Namespace, Name string
	Port            int32
}

// Ask sends questions to a server, one after another, and returns the replies in that order. An error
// means that the server was not asked, or did not answer: it is never a statement about the name. The
// context bounds all of it.
func Ask(ctx context.Context, c *clusters.Cluster, pod Pod, questions ...dns.Question) ([]*dns.Msg, error) {
	type result struct {
		replies []*dns.Msg
		err     error
	}
	done := make(chan result, 1)
	go func() { // Dialing a port-forward takes no context. It ends with the process.
		replies, err := ask(ctx, c, pod, questions)
		done <- result{replies, err}
	}()
	select {
	case r := <-done:
		return r.replies, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("ask pod %s/%s: %w", pod.Namespace, pod.Name, ctx.Err())
	}
}

func ask(ctx context.Context, c *clusters.Cluster, pod Pod, questions []dns.Question) ([]*dns.Msg, error) {
	tunnel, err := dial(c, pod)
	if err != nil {
		return nil, fmt.Errorf("forward a port of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	defer func() { _ = tunnel.Close() }()
	defer context.AfterFunc(ctx, func() { _ = tunnel.Close() })()
	var replies []*dns.Msg
	for i, question := range questions {
		reply, err := exchange(tunnel, pod.Port, i, question)
		if err != nil {
			return nil, fmt.Errorf("ask pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

// dial opens a port-forward as kubectl does: by a WebSocket, or by SPDY where a proxy or an old API server
// does not know that.
func dial(c *clusters.Cluster, pod Pod) (httpstream.Connection, error) {
	address, err := forwardURL(c.Config, pod)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(c.Config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, address)
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(address, c.Config)
	if err != nil {
		return nil, err
	}
	either := portforward.NewFallbackDialerForStreaming(tunnel, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	connection, _, err := either.Dial(portforward.PortForwardProtocolV1Name)
	return connection, err
}

func forwardURL(config *rest.Config, pod Pod) (*url.URL, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	return base.JoinPath("api", "v1", "namespaces", pod.Namespace, "pods", pod.Name, "portforward"), nil
}

// maxError bounds what a node reports.
const maxError = 1000

// exchange sends one question on a stream of its own. A message has its length before it (RFC 1035,
// section 4.2.2).
func exchange(tunnel httpstream.Connection, port int32, id int, question dns.Question) (*dns.Msg, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(id))
	failures, err := tunnel.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("open a stream: %w", err)
	}
	_ = failures.Close() // It is only read.
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := tunnel.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("open a stream: %w", err)
	}
	defer func() { _ = data.Reset() }()
	reply, err := roundTrip(data, question)
	if err != nil {
		// The node reports on the other stream why the port does not answer.
		if text, _ := io.ReadAll(io.LimitReader(failures, maxError)); len(text) > 0 {
			return nil, errors.New(string(text))
		}
	}
	return reply, err
}

func roundTrip(stream io.ReadWriter, question dns.Question) (*dns.Msg, error) {
	query := new(dns.Msg)
	query.Id, query.RecursionDesired, query.Question = dns.Id(), true, []dns.Question{question}
	text, err := query.Pack()
	if err != nil {
		return nil, err
	}
	if _, err := stream.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)); err != nil {
		return nil, fmt.Errorf("send the question: %w", err)
	}
	var length [2]byte
	if _, err := io.ReadFull(stream, length[:]); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	text = make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(stream, text); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	reply := new(dns.Msg)
	if err := reply.Unpack(text); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if reply.Id != query.Id {
		return nil, errors.New("the answer is for another question")
	}
	return reply, nil
}
