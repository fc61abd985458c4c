package reflector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// find asks the server which version of the resource it has, and returns whether it has one, and when to
// try that version.
func (f *Follower) find(ctx context.Context) (version int, found bool, pause time.Duration) {
	version, err := f.served(ctx)
	if err == nil {
		return version, true, retryFirst // the list of that version reports the outcome
	}
	f.tell(ctx, List, err)
	if errors.Is(err, ErrAbsent) {
		return 0, false, absentPoll
	}
	return version, false, retryMost
}

// named is an element of a list of discovery. Nothing else of it is decoded: an element of three bytes is a hundred times as large
// in Kubernetes' own types, and a hostile server can send millions.
type named struct {
	Name string `json:"name"`
}

// served returns the index of the best version of the resource that the server has, or ErrAbsent.
// One 404 does not prove absence: the server must also list its API groups.
func (f *Follower) served(ctx context.Context) (version int, err error) {
	for i, v := range f.resource.Versions {
		path := "/apis/" + v.String()
		if v.Group == "" {
			path = "/api/" + v.Version
		}
		var list struct {
			Resources []named `json:"resources"`
		}
		if err := f.discover(ctx, v, path, &list); err != nil && !apierrors.IsNotFound(err) {
			return i, err
		}
		if slices.Contains(list.Resources, named{f.resource.Name}) {
			return i, nil
		}
	}
	var list struct {
		Groups []named `json:"groups"`
	}
	if err := f.discover(ctx, f.resource.Versions[0], "/apis", &list); err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(list.Groups, func(group named) bool { return group.Name != "" }) {
		// The client treats a refused list as an empty list.
		return 0, errors.New("the server lists no API groups")
	}
	return 0, ErrAbsent
}

// maxDiscovery bounds an answer of discovery, in bytes. A thousand API groups take 250 KB.
const maxDiscovery = 1 << 20

// discover reads an answer of discovery with the client of a version, which bounds it as it bounds a list.
func (f *Follower) discover(ctx context.Context, with Version, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, f.limits.list)
	defer cancel()
	text, err := with.Client.Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return err
	}
	if len(text) > maxDiscovery {
		return fmt.Errorf("the answer to %s has %d bytes, want at most %d", path, len(text), maxDiscovery)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the answer to %s is not one of discovery: %w", path, err)
	}
	return nil
}
