package reflector

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// find asks the server which version of the resource it has, and returns whether it has one, and when to
// try that version.
func (f *Follower) find(ctx context.Context) (version int, found bool, pause time.Duration) {
	version, err := f.served()
	if err == nil {
		return version, true, retryFirst // the list of that version reports the outcome
	}
	f.tell(ctx, List, err)
	if errors.Is(err, ErrAbsent) {
		return 0, false, absentPoll
	}
	return version, false, retryMost
}

// served returns the index of the best version of the resource that the server has, or ErrAbsent.
// One 404 does not prove absence: the server must also list its API groups.
func (f *Follower) served() (version int, err error) {
	for i, v := range f.resource.Versions {
		list, err := f.finder.ServerResourcesForGroupVersion(v.String())
		if err != nil && !apierrors.IsNotFound(err) {
			return i, err
		}
		if err == nil && hasResource(list, f.resource.Name) {
			return i, nil
		}
	}
	groups, err := f.finder.ServerGroups()
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name != "" }) {
		// The client treats a refused list as an empty list.
		return 0, errors.New("the server lists no API groups")
	}
	return 0, ErrAbsent
}

func hasResource(list *metav1.APIResourceList, name string) bool {
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
}
