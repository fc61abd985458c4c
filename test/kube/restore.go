package kube

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// Save copies what etcd has. restore gives it back, as a backup does: every resourceVersion goes back, too. Both end
// the API server for a moment, with every connection. Kubernetes' own controllers start again, as etcd's manual for a
// restore asks for: what they remember is of the time after the copy.
func (c *Cluster) Save(ctx context.Context) (restore func(context.Context) error, err error) {
	data, saved := filepath.Join(c.dir, "etcd"), filepath.Join(c.dir, "etcd-saved")
	err = c.withoutEtcd(ctx, func() error { return os.CopyFS(saved, os.DirFS(data)) })
	return func(ctx context.Context) error {
		return c.withoutEtcd(ctx, func() error {
			return errors.Join(os.RemoveAll(data), os.Rename(saved, data))
		})
	}, err
}

// withoutEtcd does something while etcd and the API server are ended.
func (c *Cluster) withoutEtcd(ctx context.Context, do func() error) error {
	programs, err := c.programs(ctx, "etcd")
	if err != nil {
		return err
	}
	controllers := c.controllers
	for _, p := range []*Program{controllers, c.apiserver, c.etcd} {
		p.Stop()
	}
	if err := do(); err != nil {
		return err
	}
	if err := c.startEtcd(ctx, programs["etcd"]); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil || controllers == nil {
		return err
	}
	return errors.Join(os.RemoveAll(filepath.Join(c.dir, controllersSocket)), c.StartControllers(ctx))
}
