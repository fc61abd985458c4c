package e2e

import (
	"context"
	"encoding/json"
	"fmt"
)

// kubeletDNS asks a node's kubelet where its pods look for DNS.
func (c *cluster) kubeletDNS(ctx context.Context, node string) (string, error) {
	config, err := c.kubelet(ctx, node)
	if err == nil && len(config.ClusterDNS) == 0 {
		err = fmt.Errorf("the kubelet of %s has no clusterDNS", node)
	}
	if err != nil {
		return "", err
	}
	return config.ClusterDNS[0], nil
}

// kubeletConfig is a part of a kubelet's configuration.
type kubeletConfig struct {
	ClusterDNS []string
	ResolvConf string
}

// kubelet asks a node's kubelet for its configuration.
func (c *cluster) kubelet(ctx context.Context, node string) (kubeletConfig, error) {
	var answer struct{ KubeletConfig kubeletConfig }
	text, err := c.kubectl(ctx, "get", "--raw", "/api/v1/nodes/"+node+"/proxy/configz")
	if err != nil {
		return answer.KubeletConfig, err
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return answer.KubeletConfig, fmt.Errorf("the configuration of the kubelet of %s: %w", node, err)
	}
	return answer.KubeletConfig, nil
}
