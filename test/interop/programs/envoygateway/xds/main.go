// xds prints, as JSON, the endpoints that Envoy Gateway gives to an Envoy: for each cluster its addresses with ports.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	address := flag.String("address", "127.0.0.1:18000", "the xDS server")
	certs := flag.String("certs", "", "the folder of Envoy's ca.crt, tls.crt and tls.key")
	gateway := flag.String("gateway", "", "namespace/name of the Gateway that the Envoy belongs to")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	found, err := endpoints(ctx, *address, *certs, *gateway)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

// endpoints asks as an Envoy does when it starts: first for the clusters, then for their endpoints.
func endpoints(ctx context.Context, address, certs, gateway string) (map[string][]string, error) {
	creds, err := credentialsFrom(certs)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	ask := func(of proto.Message, names ...string) ([]*anypb.Any, error) {
		url := "type.googleapis.com/" + string(proto.MessageName(of))
		err := stream.Send(&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "test", Cluster: gateway}, TypeUrl: url, ResourceNames: names})
		if err != nil {
			return nil, err
		}
		response, err := stream.Recv()
		return response.GetResources(), err
	}
	return read(ask)
}

func read(ask func(proto.Message, ...string) ([]*anypb.Any, error)) (map[string][]string, error) {
	clusters, err := ask(&clusterv3.Cluster{})
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	var names []string
	for _, packed := range clusters {
		cluster := new(clusterv3.Cluster)
		if err := packed.UnmarshalTo(cluster); err != nil {
			return nil, err
		}
		found[cluster.GetName()] = addresses(cluster.GetLoadAssignment())
		if cluster.GetType() == clusterv3.Cluster_EDS {
			names = append(names, cluster.GetName())
		}
	}
	if len(names) == 0 {
		return found, nil
	}
	loads, err := ask(&endpointv3.ClusterLoadAssignment{}, names...)
	if err != nil {
		return nil, err
	}
	for _, packed := range loads {
		load := new(endpointv3.ClusterLoadAssignment)
		if err := packed.UnmarshalTo(load); err != nil {
			return nil, err
		}
		found[load.GetClusterName()] = addresses(load)
	}
	return found, nil
}

func addresses(load *endpointv3.ClusterLoadAssignment) []string {
	all := []string{}
	for _, locality := range load.GetEndpoints() {
		for _, endpoint := range locality.GetLbEndpoints() {
			at := endpoint.GetEndpoint().GetAddress().GetSocketAddress()
			all = append(all, net.JoinHostPort(at.GetAddress(), strconv.Itoa(int(at.GetPortValue()))))
		}
	}
	slices.Sort(all)
	return all
}

func credentialsFrom(dir string) (credentials.TransportCredentials, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: "envoy-gateway", MinVersion: tls.VersionTLS12}), nil
}
