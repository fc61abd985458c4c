package simulation

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/world"
)

// fresh compares a clusterset that has come to its end with another one, in which people have made the same objects, and nothing has ever
// happened. The oracle needs the rules for that; this needs none, so it also judges what the oracle does not know: preferred clusters, limits,
// native names and automatic exports.
func (s *story) fresh() error {
	other := &story{ctx: s.ctx, seed: s.seed, network: newNetwork(), judges: newJudges(), given: map[string][]client.Object{}}
	defer func() {
		other.stop()
		for _, c := range other.clusters {
			c.dying.Wait()
		}
	}()
	for _, c := range s.clusters {
		other.given[c.id] = c.ofPeople()
	}
	if err := other.begin(s.began); err != nil {
		return err
	}
	err := other.wait([]string{"1m"})
	for i, c := range s.clusters {
		err = errors.Join(err, other.markImports(other.clusters[i], c))
	}
	err = errors.Join(err, other.settle(nil))
	if of := (broken{}); errors.As(err, &of) && of.promise != ending {
		err = nil // an object of people can be in the way of a new import, such as a slice for the Service that it gets
	}
	if err != nil {
		return fmt.Errorf("a new clusterset with the same objects of people: %w", err)
	}
	if diff := differences(other.ends(len(s.clusters)), s.ends(len(s.clusters))); diff != "" {
		return broken{ending, "a clusterset in which the same objects are new has another end (- is what that has):\n" + diff + "\nThe new one has:\n" + other.state()}
	}
	return nil
}

// markImports gives imports of the controller what people say in those of another cluster about other clusters.
func (s *story) markImports(c, as *cluster) (err error) {
	for _, o := range as.server.Objects() {
		imp, is := o.(*mcsv1beta1.ServiceImport)
		if !is || !ownership.OfImport(imp) {
			continue
		}
		for key, value := range mcs.Only(imp.Annotations, mcs.AnnotationPreferClusters) {
			err = errors.Join(err, client.IgnoreNotFound(s.mark(c, "annotations", []string{"serviceimport", imp.Namespace + "/" + imp.Name, key + "=" + value})))
		}
	}
	return err
}

// ofPeople are the objects of a cluster that no controller has made, as they are, without what controllers have written into them. Automatic
// exports are theirs, too: when they were made decides conflicts.
func (c *cluster) ofPeople() (all []client.Object) {
	for _, o := range c.server.Objects() {
		o = o.DeepCopyObject().(client.Object)
		o.SetOwnerReferences(nil)
		if ofPeople(o) {
			all = append(all, o)
		}
	}
	return all
}

// ofPeople reports whether people have made an object, and takes away its status.
func ofPeople(o client.Object) bool {
	switch o := o.(type) {
	case *corev1.Service:
		return o.Labels[mcs.LabelManagedBy] != mcs.ControllerName && !ownership.NativeService(o)
	case *discoveryv1.EndpointSlice:
		imported := ownership.OfSlice(o) || o.Labels[mcsv1beta1.LabelServiceName] != "" && o.Labels[mcsv1beta1.LabelSourceCluster] != ""
		return !imported && !strings.HasSuffix(o.Name, "-pods")
	case *mcsv1beta1.ServiceImport:
		o.Status = mcsv1beta1.ServiceImportStatus{}
		return !ownership.OfImport(o)
	case *mcsv1beta1.ServiceExport:
		o.Status = mcsv1beta1.ServiceExportStatus{}
		return true
	case *corev1.Namespace:
		return o.Name != world.SystemNamespace && o.Name != secondNamespace // that of a second installation, which has announced itself there
	case *corev1.Secret:
		return true
	}
	return false
}

// What is another one each time.
var (
	anUID     = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	aTime     = regexp.MustCompile(`20\d\d-\d\d-\d\dT[0-9:.]+Z`)
	aHash     = regexp.MustCompile(`-[0-9a-f]{10}$`) // at the end of a slice's name
	clusterIP = regexp.MustCompile(`\b10\.\d\.0\.\d+\b`)
	aMemory   = regexp.MustCompile(`(?m)^  (` + mcs.AnnotationClusterIPs + `|` + mcs.AnnotationDerivedService + `): .*\n`) // also of a former address
)

// ends is what the first clusters have, without what is another one each time.
func (s *story) ends(clusters int) picture {
	all := picture{}
	for _, c := range s.clusters[:min(clusters, len(s.clusters))] {
		s.judges.mu.Lock()
		has := s.judges.facts[c.id].see().picture()
		s.judges.mu.Unlock()
		for _, key := range sortedByValue(has) {
			if !strings.HasPrefix(key, "lease of peer") {
				value := aMemory.ReplaceAllString(has[key], "")
				value = clusterIP.ReplaceAllString(aTime.ReplaceAllString(anUID.ReplaceAllString(value, "UID"), "TIME"), "CLUSTERIP")
				all[c.id+" "+aHash.ReplaceAllString(key, "-HASH")] += value
			}
		}
	}
	return all
}

func sortedByValue(p picture) (keys []string) {
	for key := range p {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int { return strings.Compare(p[a], p[b]) })
	return keys
}

// isBeyond reports whether something is in use that the oracle does not know.
func (j *judges) isBeyond() bool {
	for _, f := range j.facts {
		if f.flags.AutoExport != reconcile.AutoExportOff || f.imported != nil || !reflect.ValueOf(f.flags.ExportNamespaces).IsZero() {
			return true
		}
		for key, object := range f.objects {
			switch o := object.(type) {
			case *mcsv1beta1.ServiceExport, *mcsv1beta1.ServiceImport:
				if j.isChosen(key.NamespacedName) || o.GetAnnotations()[mcs.AnnotationNativeName] != "" {
					return true
				}
			case *corev1.Secret:
				if f.limits(o.Name) {
					return true
				}
			}
		}
	}
	return false
}

// anyBeyond reports whether fresh has to judge the end.
func (j *judges) anyBeyond() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.isBeyond() && !j.isLied()
}
