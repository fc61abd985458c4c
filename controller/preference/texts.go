package preference

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Texts are the values of the annotations of one object. An annotation that the object does not
// have is "". The record in the annotation clusterset-dns.io/exports uses the same field names.
type Texts struct {
	Clusters    string `json:",omitempty"` // mcs.AnnotationPreferClusters
	MinReady    string `json:",omitempty"` // mcs.AnnotationMinReady
	ReturnAfter string `json:",omitempty"` // mcs.AnnotationReturnAfter
}

const (
	// maxText limits one annotation, because every cluster of the clusterset keeps it in memory. A
	// longer value is shortened to one byte more, which Resolve rejects.
	maxText = 1024
	// maxEntries limits the entries of a list.
	maxEntries = 16
	// maxReady is larger than the number of endpoints of any Service.
	maxReady = 1_000_000

	defaultMinReady    = 1
	defaultReturnAfter = 10 * time.Second
	maxReturnAfter     = 24 * time.Hour
)

// Read returns the annotations that this package uses.
func Read(annotations map[string]string) Texts {
	read := func(key string) string {
		text, found := annotations[key]
		if found && strings.TrimSpace(text) == "" {
			return " " // Absent is not empty: an empty list is a mistake.
		}
		return strings.Clone(text[:min(len(text), maxText+1)])
	}
	return Texts{read(mcs.AnnotationPreferClusters), read(mcs.AnnotationMinReady), read(mcs.AnnotationReturnAfter)}
}

// Annotations returns the annotations that Read read.
func (t Texts) Annotations() map[string]string {
	all := map[string]string{mcs.AnnotationPreferClusters: t.Clusters, mcs.AnnotationMinReady: t.MinReady, mcs.AnnotationReturnAfter: t.ReturnAfter}
	for key, text := range all {
		if text == "" {
			delete(all, key)
		}
	}
	return all
}

// String returns the annotations for a message.
func (t Texts) String() string {
	var parts []string
	for _, text := range []string{t.Clusters, t.MinReady, t.ReturnAfter} {
		if text != "" {
			parts = append(parts, strings.TrimSpace(text))
		}
	}
	return strings.Join(parts, "; ")
}

// Policy is what the annotations say.
type Policy struct {
	// Entries are in their order. If there are none, there is no preference.
	Entries []Entry
	// MinReady is the number of ready endpoints that an entry needs.
	MinReady int
	// ReturnAfter is how long an earlier entry must be sufficient before it is used again.
	ReturnAfter time.Duration
	// Faults describe annotations that are malformed. Such an annotation has no effect.
	Faults []string
}

// Resolve returns the policy of an import. Each annotation of the import wins over that of the
// oldest export. A malformed annotation counts as absent.
func Resolve(ofImport, ofExport Texts) Policy {
	return resolve(source{"this ServiceImport", ofImport}, source{"the oldest ServiceExport", ofExport})
}

// Faults returns what is wrong with the annotations of a ServiceExport.
func (t Texts) Faults() []string { return resolve(source{"this ServiceExport", t}).Faults }

// source is an object with annotations.
type source struct {
	name string
	Texts
}

func resolve(sources ...source) Policy {
	p := Policy{MinReady: defaultMinReady, ReturnAfter: defaultReturnAfter}
	entries := annotation[[]Entry]{mcs.AnnotationPreferClusters, func(s source) string { return s.Clusters }, parseEntries}
	minReady := annotation[int]{mcs.AnnotationMinReady, func(s source) string { return s.MinReady }, parseMinReady}
	returnAfter := annotation[time.Duration]{mcs.AnnotationReturnAfter, func(s source) string { return s.ReturnAfter }, parseReturnAfter}
	p.Faults = slices.Concat(entries.set(&p.Entries, sources), minReady.set(&p.MinReady, sources), returnAfter.set(&p.ReturnAfter, sources))
	return p
}

// annotation is how the value of an annotation is read.
type annotation[T any] struct {
	key   string
	text  func(source) string
	parse func(string) (T, error)
}

// set sets the value of the first source whose annotation is well-formed. It returns what is wrong
// with the annotations before.
func (a annotation[T]) set(to *T, sources []source) (faults []string) {
	for _, of := range sources {
		text := a.text(of)
		if text == "" {
			continue
		}
		value, err := a.parse(text)
		if len(text) > maxText {
			err = fmt.Errorf("is longer than %d bytes", maxText)
		}
		if err == nil {
			*to = value
			return faults
		}
		faults = append(faults, fmt.Sprintf("the annotation %s of %s %v, so it has no effect", a.key, of.name, err))
	}
	return faults
}

func parseMinReady(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 1 || n > maxReady {
		return 0, fmt.Errorf("is %q, want a number from 1 to %d", brief.Clip(text), maxReady)
	}
	return n, nil
}

func parseReturnAfter(text string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d < 0 || d > maxReturnAfter {
		return 0, fmt.Errorf("is %q, want a duration from 0s to %s, such as 10s or 5m", brief.Clip(text), maxReturnAfter)
	}
	return d, nil
}

func parseEntries(text string) ([]Entry, error) {
	texts := strings.Split(text, ",")
	if len(texts) > maxEntries {
		return nil, fmt.Errorf("has %d entries, want at most %d", len(texts), maxEntries)
	}
	var entries []Entry
	for i, one := range texts {
		entry, ok := parseEntry(strings.TrimSpace(one))
		if !ok {
			return nil, fmt.Errorf("has %q as entry %d, want one of: local, any, cluster=ID, PROPERTY, PROPERTY=VALUE (a property is such as topology.kubernetes.io/region)",
				brief.Clip(strings.TrimSpace(one)), i+1)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// Entry is one entry of a list.
type Entry struct {
	text string
	// has reports whether a cluster belongs to the entry.
	has func(c, home Cluster) bool
}

// String returns the entry as it was written.
func (e Entry) String() string { return e.text }

// Cluster is what a choice depends on.
type Cluster struct {
	// ID is the cluster's ID. Home marks the importing cluster.
	ID   string
	Home bool
	// Ready is the number of ready endpoints.
	Ready int
	// Connected reports whether the cluster gets traffic at present.
	Connected bool
	// Properties are the ClusterProperties of the cluster, by their names. They are read-only.
	Properties map[string]string
}

// parseEntry returns the entry of a text, and whether the text has one of the accepted forms.
func parseEntry(text string) (Entry, bool) {
	e := Entry{text: text}
	key, value, equals := strings.Cut(text, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch {
	case text == "local":
		e.has = func(c, _ Cluster) bool { return c.Home }
	case text == "any":
		e.has = func(Cluster, Cluster) bool { return true }
	case key == "cluster" && equals:
		e.has = func(c, _ Cluster) bool { return c.ID == value }
		return e, mcs.ClusterIDFault(value) == ""
	default:
		property, ok := PropertyName(key)
		e.has = func(c, home Cluster) bool {
			have, wanted := c.Properties[property], value
			if !equals {
				wanted = home.Properties[property]
			}
			// A cluster without the property belongs to no value of it. The importing cluster is
			// always as near as itself.
			return have != "" && have == wanted || !equals && c.Home
		}
		return e, ok && strings.Contains(property, ".") && (!equals || value != "" && len(validation.IsValidLabelValue(value)) == 0)
	}
	return e, true
}

// PropertyName returns the name of the ClusterProperty that a key stands for, and whether the key is
// valid. The name of an object has no slash, so the property of the label
// topology.kubernetes.io/region is called region.topology.kubernetes.io, as KEP-2149 puts the domain
// at the end of a name. Both forms are accepted.
func PropertyName(key string) (name string, ok bool) {
	if domain, local, slash := strings.Cut(key, "/"); slash {
		key = local + "." + domain
	}
	return key, len(validation.IsDNS1123Subdomain(key)) == 0
}
