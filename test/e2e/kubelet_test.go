package e2e

import (
	"context"
	"encoding/json"
	"fmt"
)

// kubeletDNS asks a node's kubelet where its pods look for DNS.
func (c *cluster) kubeletDNS(ctx context.Context, node string) (string, error) {
	text, err := c.kubectl(ctx, "get", "--raw", "/api/v1/nodes/"+node+"/proxy/configz")
	if err != nil {
		return "", err
	}
	var answer struct {
		KubeletConfig struct{ ClusterDNS []string }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return "", fmt.Errorf("the configuration of the kubelet of %s: %w", node, err)
	}
	if len(answer.KubeletConfig.ClusterDNS) == 0 {
		return "", fmt.Errorf("the kubelet of %s has no clusterDNS", node)
	}
	return answer.KubeletConfig.ClusterDNS[0], nil
}
