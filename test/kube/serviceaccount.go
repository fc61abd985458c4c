package kube

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
)

// ServiceAccount gives the identity of a service account, with a token for an hour, and the path of a kubeconfig with it. Its
// namespace and itself are made if they are not there; its rights are what the test binds to it.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, string, error) {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, "", err
	}
	itself := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, itself, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, "", err
	}
	accounts := client.CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, "", fmt.Errorf("create service account %s/%s: %w", namespace, name, err)
	}
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("ask for a token of %s/%s: %w", namespace, name, err)
	}
	return c.identity(namespace+"."+name, &api.AuthInfo{Token: token.Status.Token})
}
