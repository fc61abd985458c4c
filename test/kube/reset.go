package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
)

// beginning is what a cluster had when it was ready for the first time: the values in etcd by their keys, and the API groups.
type beginning struct {
	values map[string][]byte
	groups []string
}

// ofTheServer are prefixes of keys that the API server itself writes all the time.
var ofTheServer = []string{"/registry/apiregistration.k8s.io/", "/registry/leases/kube-system/apiserver-", "/registry/masterleases/", "/registry/events/"}

func isOfTheServer(key string) bool {
	return slices.ContainsFunc(ofTheServer, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// begin notes what the cluster has when its API server has made all that it makes by itself: some of it comes after it is ready.
func (c *Cluster) begin(ctx context.Context) error {
	keys := 0
	return Poll(ctx, 200*time.Millisecond, func(context.Context) (err error) {
		before := keys
		if c.first.values, err = c.values(ctx); err != nil {
			return err
		}
		if keys = len(c.first.values); keys != before || c.first.values["/registry/services/specs/default/kubernetes"] == nil {
			return fmt.Errorf("the API server still makes objects, of which there are %d now", keys)
		}
		c.first.groups, err = c.groups()
		return err
	})
}

// reset gives the cluster what it had at its beginning, past the API server, which sees all of it as changes: finalizers and admission have
// no say. It returns when no group of a CRD is served any more.
func (c *Cluster) reset(ctx context.Context) error {
	c.controllers.Stop()
	c.controllers = nil
	// Its socket would be in the way of the next ones, and what kubectl knows of CRDs is of the test before.
	if err := errors.Join(os.RemoveAll(filepath.Join(c.dir, controllersSocket)), os.RemoveAll(c.Kubeconfig+".cache")); err != nil {
		return err
	}
	now, err := c.values(ctx)
	if err != nil {
		return err
	}
	for key := range now {
		if _, first := c.first.values[key]; !first && !isOfTheServer(key) {
			err = errors.Join(err, c.askEtcd(ctx, "deleterange", kv{Key: []byte(key)}, nil))
		}
	}
	for key, value := range c.first.values {
		if !bytes.Equal(now[key], value) && !isOfTheServer(key) {
			err = errors.Join(err, c.askEtcd(ctx, "put", kv{Key: []byte(key), Value: value}, nil))
		}
	}
	if err != nil {
		return err
	}
	return Poll(ctx, slowest/10, func(context.Context) error {
		groups, err := c.groups()
		if err == nil && !reflect.DeepEqual(groups, c.first.groups) {
			err = fmt.Errorf("the API server has the groups %q, and had %q", groups, c.first.groups)
		}
		return err
	})
}

// groups are the API groups that the API server has, sorted.
func (c *Cluster) groups() ([]string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	list, err := client.ServerGroups()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range list.Groups {
		names = append(names, g.Name)
	}
	slices.Sort(names)
	return names, nil
}

// kv is a key of etcd's, or a range of keys, in the JSON of etcd's gateway.
type kv struct {
	Key   []byte `json:"key"`
	End   []byte `json:"range_end,omitempty"`
	Value []byte `json:"value,omitempty"`
}

// values are all values in etcd.
func (c *Cluster) values(ctx context.Context) (map[string][]byte, error) {
	var found struct{ Kvs []kv }
	if err := c.askEtcd(ctx, "range", kv{Key: []byte{0}, End: []byte{0}}, &found); err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, one := range found.Kvs {
		all[string(one.Key)] = one.Value
	}
	return all, nil
}

// askEtcd makes a request to etcd's gateway (https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway).
func (c *Cluster) askEtcd(ctx context.Context, verb string, question kv, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v3/kv/"+verb, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := overSocket(filepath.Join(c.dir, "etcd.sock")).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s with %s", verb, response.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}
