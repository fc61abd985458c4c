package reconcile

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/observed"
)

// remembered returns the other clusters whose exports the imports record. It takes one cluster of
// each namespace in turn, first the cluster that most imports of the namespace record. So users
// with permission to write imports in one namespace cannot push out the clusters that other
// namespaces record.
func remembered(ctx context.Context, cache client.Reader) ([]string, error) {
	var all mcsv1beta1.ServiceImportList
	if err := cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	counts := map[string]map[string]int{} // number of imports, by namespace and cluster
	for i := range all.Items {
		imp := &all.Items[i]
		for _, cluster := range observed.RecordedClusters(imp) {
			if counts[imp.Namespace] == nil {
				counts[imp.Namespace] = map[string]int{}
			}
			counts[imp.Namespace][cluster]++
		}
	}
	namespaces := slices.Sorted(maps.Keys(counts))
	lists := make([][]string, len(namespaces))
	for i, namespace := range namespaces {
		of := counts[namespace]
		lists[i] = slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	}
	return inTurn(lists), nil
}

// inTurn takes the first of each list, then the second, and so on. Each text occurs once.
func inTurn(lists [][]string) (all []string) {
	known := map[string]bool{}
	for at, more := 0, true; more; at++ {
		more = false
		for _, list := range lists {
			if at >= len(list) {
				continue
			}
			more = true
			if text := list[at]; !known[text] {
				known[text] = true
				all = append(all, text)
			}
		}
	}
	return all
}
