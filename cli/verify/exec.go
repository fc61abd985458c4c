package verify

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	// execBound bounds a command in a pod.
	execBound = 20 * time.Second
	// maxOutput bounds what it prints, in bytes.
	maxOutput = 16 << 10
)

// bounded keeps the first bytes that are written to it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxOutput - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// exec runs a command in the pod and returns what it prints. The error contains what it prints as an
// error.
func (p *place) exec(ctx context.Context, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, execBound)
	defer cancel()
	request := p.Kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	config := rest.CopyConfig(p.Config)
	config.Timeout = 0 // The context has the bound: this one would end the stream.
	overWebSocket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, request.URL().String())
	if err != nil {
		return "", err
	}
	overSPDY, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, request.URL())
	if err != nil {
		return "", err
	}
	// Old API servers and some proxies do not pass WebSockets on.
	executor, err := remotecommand.NewFallbackExecutor(overWebSocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return "", err
	}
	var out, errOut bounded
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(command[:min(len(command), 3)], " "), err, strings.TrimSpace(errOut.String()))
	}
	return strings.TrimSpace(out.String()), nil
}
