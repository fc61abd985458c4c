package multicluster

import (
	"context"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/request"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

// metadataOf maps each label to the function that returns its value: a part of the queried name, ""
// if the name has no such part.
var metadataOf = map[string]func(index.Name) string{
	"multicluster/namespace": func(n index.Name) string { return n.Namespace },
	"multicluster/service":   func(n index.Name) string { return n.Service.Name() },
	"multicluster/cluster":   func(n index.Name) string { _, cluster := n.Host(); return cluster },
	"multicluster/endpoint":  func(n index.Name) string { hostname, _ := n.Host(); return hostname },
	"multicluster/port-name": func(n index.Name) string { port, _ := n.Port(); return port },
	"multicluster/protocol":  func(n index.Name) string { _, protocol := n.Port(); return protocol },
}

// Metadata implements metadata.Provider. It returns the parts of a name in the plugin's zones. The
// name need not exist.
func (m *Multicluster) Metadata(ctx context.Context, state request.Request) context.Context {
	zone := m.zone(state.Name())
	if zone == nil {
		return ctx
	}
	for label, part := range metadataOf {
		metadata.SetValueFunc(ctx, label, func() string { return part(zone.Parse(state.Name())) })
	}
	return ctx
}
