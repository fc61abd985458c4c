package peers

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// conflicting is a Writer that meets a change of the namespace by somebody else, once.
type conflicting struct {
	Writer
	met atomic.Bool
}

func (w *conflicting) Announce(ctx context.Context, namespace, version string, annotations map[string]any) error {
	if w.met.CompareAndSwap(false, true) {
		version = "1"
	}
	err := w.Writer.Announce(ctx, namespace, version, annotations)
	if version == "1" && !apierrors.IsConflict(err) {
		return apierrors.NewConflict(schema.GroupResource{}, "the test needs a conflict", err)
	}
	return err
}

// TestAChangedNamespaceIsNoError: two writers of one namespace are usual, and an error in the log
// would call somebody.
func TestAChangedNamespaceIsNoError(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	writer := new(conflicting)
	var failures atomic.Int32
	r := p.read(t, func(o *Options) {
		writer.Writer = o.Writer
		o.Writer = writer
		o.Log = funcr.New(func(string, string) {}, funcr.Options{RenderBuiltinsHook: func(kvs []any) []any {
			for i, key := range kvs {
				if key == "error" && i%2 == 0 {
					failures.Add(1)
				}
			}
			return kvs
		}})
	})
	kube.Eventually(t, "the ID is announced", r.announcesItsID)
	if !writer.met.Load() || failures.Load() > 0 {
		t.Errorf("there was a conflict: %t, and errors: %d", writer.met.Load(), failures.Load())
	}
}
