package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// allClusters is in the column of the cluster where a check compares clusters and found nothing.
const allClusters = "all"

// together are the checks that compare clusters. One cluster has nothing to compare.
func together(all []*facts, o Options) []Check {
	read := slices.DeleteFunc(slices.Clone(all), func(f *facts) bool { return f.server.err != nil })
	found := checkClocks(read)
	if len(read) < 2 {
		return found
	}
	same := checkSameCluster(read)
	found = append(found, same...)
	read = distinct(read)
	if len(read) < 2 {
		return found
	}
	if !o.Pre {
		found = append(found, checkDuplicateIDs(read)...)
		found = append(found, checkSkew(read)...)
	}
	return append(found, checkNetworks(read)...)
}

func pair(a, b *facts) string { return a.context + "," + b.context }

// checkSameCluster finds contexts of one cluster. Two users of one cluster are no fault.
func checkSameCluster(all []*facts) []Check {
	var found []Check
	for i, b := range all {
		for _, a := range all[:i] {
			if a.identity.value.UID == "" || a.identity.value.UID != b.identity.value.UID {
				continue
			}
			c := Check{ID: SameCluster, Cluster: pair(a, b)}
			found = append(found, c.is(Warning, fmt.Sprintf("the contexts %s and %s are one cluster", a.context, b.context)).advise("Name one of them with --contexts."))
		}
	}
	if len(found) > 0 {
		return found
	}
	for _, f := range all {
		if f.identity.err != nil {
			return []Check{Check{ID: SameCluster, Cluster: allClusters}.unknown(fmt.Errorf("context %s: %w", f.context, f.identity.err))}
		}
	}
	return []Check{Check{ID: SameCluster, Cluster: allClusters}.ok("each context is a cluster of its own")}
}

// distinct leaves one context of each cluster.
func distinct(all []*facts) []*facts {
	var kept []*facts
	for _, f := range all {
		if !slices.ContainsFunc(kept, func(k *facts) bool { return k.identity.value.UID != "" && k.identity.value.UID == f.identity.value.UID }) {
			kept = append(kept, f)
		}
	}
	return kept
}

func checkDuplicateIDs(all []*facts) []Check {
	var found []Check
	for i, b := range all {
		for _, a := range all[:i] {
			if id := b.identity.value.ID; id != "" && a.identity.value.ID == id {
				c := Check{ID: ClusterID, Cluster: pair(a, b), Link: output.Docs + "join.md#the-cluster-id"}
				found = append(found, c.is(Failed, "two clusters have the ID "+id).advise("Change the ID of one of them."))
			}
		}
	}
	return found
}

// checkSkew compares the images of the controllers.
func checkSkew(all []*facts) []Check {
	c := Check{ID: VersionSkew, Cluster: allClusters, Link: output.Docs + "operations/upgrade.md"}
	var tags, who []string
	for _, f := range all {
		switch d := f.controller; {
		case d.err != nil:
			return []Check{c.unknown(fmt.Errorf("context %s: %w", f.context, d.err))}
		case d.value != nil && len(d.value.Spec.Template.Spec.Containers) > 0:
			tag := tagOf(d.value.Spec.Template.Spec.Containers[0].Image)
			tags, who = append(tags, tag), append(who, fmt.Sprintf("%s has %s", f.context, tag))
		}
	}
	slices.Sort(tags)
	if tags = slices.Compact(tags); len(tags) > 1 {
		return []Check{c.is(Warning, "controllers have different versions: "+output.List(who, 12)).advise("Upgrade the older ones.")}
	}
	return []Check{c.ok("all controllers have one version: " + strings.Join(tags, ""))}
}

// Clocks: the age of exports decides conflicts, and tokens are valid between two times.
const (
	skewWarning = 10 * time.Second
	skewFailed  = 5 * time.Minute
)

// checkClocks compares the clocks of the API servers with each other, and with the local one.
func checkClocks(all []*facts) []Check {
	if len(all) == 0 {
		return nil
	}
	ahead := make([]time.Duration, len(all))
	for i, f := range all {
		ahead[i] = f.server.value.Ahead
	}
	slices.Sort(ahead)
	spread := ahead[len(ahead)-1] - ahead[0]
	var reference time.Duration // the local clock, unless the clusters agree on another time
	if len(all) >= 3 || len(all) == 2 && spread <= skewWarning {
		reference = ahead[len(ahead)/2]
	}
	var found []Check
	for _, f := range all {
		found = append(found, f.checkClock(reference))
	}
	if reference.Abs() > skewWarning {
		c := Check{ID: ClockSkew, Cluster: "this machine"}
		found = append(found, c.is(Warning, fmt.Sprintf("the local clock is %s the clocks of the clusters", position(-reference))).advise("Correct the local clock."))
	}
	return found
}

func (f *facts) checkClock(reference time.Duration) Check {
	c := Check{ID: ClockSkew, Cluster: f.context}
	off := f.server.value.Ahead - reference
	detail := fmt.Sprintf("the clock of the API server is %s the others", position(off))
	switch {
	case off.Abs() > skewFailed:
		return c.is(Failed, detail).advise("Correct the clocks of its nodes. Tokens can be refused until then, and the age of exports is wrong.")
	case off.Abs() > skewWarning:
		return c.is(Warning, detail).advise("Correct the clocks of its nodes. The age of exports decides conflicts.")
	}
	return c.ok(fmt.Sprintf("within %v", skewWarning))
}

func position(off time.Duration) string {
	if off < 0 {
		return fmt.Sprintf("%v behind", off.Abs().Round(time.Second))
	}
	return fmt.Sprintf("%v ahead of", off.Round(time.Second))
}
