// Package contested finds the fields that another writer keeps setting back: a controller such as
// Karmada's, a mutating webhook, or an API server that does not know the field. The controller leaves
// such a field alone for a while, so that no other write waits for it, and so that two writers do not
// overwrite each other endlessly.
//
//	Of      the fields in which an edit of any object differs
//	Memory  counts the writes of each field, and holds those that are set back
//	Without takes the held fields out of an edit
//
// Fields that a tenant could use to take over a Service's traffic are never held: see never.
package contested

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/internal/brief"
)

// Field is a part of an object: a field of its spec or status, a label, an annotation, or a condition.
// The UID is part of it, because a new object of the same name was never set back.
type Field struct {
	Kind       string
	UID        types.UID
	Place, Key string
}

// The places of fields, and where an object has them.
const (
	inSpec, inStatus, inConditions = "spec.", "status.", "condition "
	inLabels, inAnnotations        = "label ", "annotation "
)

var places = map[string][]string{
	inSpec: {"spec"}, inStatus: {"status"}, inConditions: {"status", "conditions"},
	inLabels: {"metadata", "labels"}, inAnnotations: {"metadata", "annotations"},
}

// together are fields of a spec that the API server accepts only together, or that contradict each
// other otherwise. They are one field, with the name of the first one that differs.
var together = [][]string{
	{"ips", "ipFamilies"},
	{"ipFamilyPolicy", "ipFamilies", "clusterIPs", "clusterIP"},
	{"type", "loadBalancerClass", "allocateLoadBalancerNodePorts", "externalTrafficPolicy", "loadBalancerSourceRanges"},
	{"sessionAffinity", "sessionAffinityConfig"},
}

// String returns the field as in messages: spec.ips of the ServiceImport.
func (f Field) String() string {
	kind := f.Kind
	if kind == "Service" {
		kind = "derived Service"
	}
	return f.Place + f.Key + " of the " + kind
}

// Label returns the field for a metric, without the keys of labels and annotations, which users choose.
func (f Field) Label() string {
	if f.InMetadata() {
		f.Place, f.Key = strings.TrimSpace(f.Place), ""
	}
	return f.String()
}

// InMetadata reports whether the field is a label or an annotation.
func (f Field) InMetadata() bool { return f.Place == inLabels || f.Place == inAnnotations }

// IPs reports whether the field is spec.ips of a ServiceImport.
func (f Field) IPs() bool { return f.Place == inSpec && f.Key == "ips" }

// Condition returns the type of a condition, or "" if the field is none.
func (f Field) Condition() string {
	if f.Place != inConditions {
		return ""
	}
	return f.Key
}

// never reports whether a field is written whatever another writer does. A tenant could take over the
// traffic of a Service with its selector, its externalIPs, its labels and owners, or the type
// ExternalName, and with everything in EndpointSlices.
func (f Field) never(old map[string]any) bool {
	return f.Kind == "EndpointSlice" || f.Kind == "Service" &&
		(f.InMetadata() || slices.Contains([]string{"selector", "externalIPs", "externalName", "publishNotReadyAddresses"}, f.Key) || at(old, inSpec)["type"] == "ExternalName")
}

// Fields are fields and their values, as JSON.
type Fields map[Field]string

// Object is an object of the API.
type Object interface{ GetUID() types.UID }

// Of returns the fields in which two versions of an object differ, with their values in the second,
// except those that are never held.
func Of(old, edited Object) Fields {
	was, _ := tree(old)
	is, _ := tree(edited)
	fields := Fields{}
	for field, keys := range differences(old, was, is) {
		var values []string
		for _, key := range keys {
			values = append(values, text(at(is, field.Place)[key]))
		}
		if fields[field] = strings.Join(values, ","); len(values) > 1 {
			fields[field] = "[" + fields[field] + "]"
		}
	}
	return fields
}

// Without returns an edit of an object in which the held fields are as they were, and these fields,
// sorted.
func Without[T any, O interface {
	*T
	Object
}](held Fields, old, edited O) (O, []Field) {
	if len(held) == 0 {
		return edited, nil
	}
	var fields []Field
	was, types := tree(old)
	is, more := tree(edited)
	values := Of(old, edited)
	for field, keys := range differences(old, was, is) {
		if held[field] != values[field] {
			continue
		}
		fields = append(fields, field)
		for _, key := range keys {
			if value, had := at(was, field.Place)[key]; had {
				at(is, field.Place)[key] = value
			} else {
				delete(at(is, field.Place), key)
			}
		}
	}
	if len(fields) == 0 {
		return edited, nil
	}
	slices.SortFunc(fields, func(a, b Field) int { return cmp.Compare(a.String(), b.String()) })
	left := O(new(T))
	decode(is, append(types, more...), left)
	return left, fields
}

// Note returns the text about a held field for a condition's message.
func (held Fields) Note(field Field) string {
	return fmt.Sprintf("%s, which another writer or the API server keeps setting back: the controller wants %s", field, brief.Clip(held[field]))
}

// differences returns the fields in which two versions differ, each with the keys that belong to it.
func differences(of Object, was, is map[string]any) map[Field][]string {
	kind := fmt.Sprintf("%T", of)
	kind = kind[strings.LastIndex(kind, ".")+1:]
	all := map[Field][]string{}
	for place := range places {
		a, b := at(was, place), at(is, place)
		keys := slices.Sorted(maps.Keys(a))
		for key := range b {
			if _, both := a[key]; !both {
				keys = append(keys, key)
			}
		}
		for _, key := range keys {
			field := Field{kind, of.GetUID(), place, key}
			if text(a[key]) != text(b[key]) && (place != inStatus || key != "conditions") && !field.never(was) {
				all[field] = []string{key}
			}
		}
	}
	for _, group := range together {
		first := Field{}
		for _, key := range group {
			field := Field{kind, of.GetUID(), inSpec, key}
			switch _, differs := all[field]; {
			case !differs:
			case first == Field{}:
				first = field
			default:
				all[first] = append(all[first], key)
				delete(all, field)
			}
		}
	}
	return all
}

// tree returns the content of an object. Its conditions have their types as keys; types has their order.
func tree(object any) (content map[string]any, types []string) {
	raw, _ := json.Marshal(object) // Objects of the API always marshal.
	_ = json.Unmarshal(raw, &content)
	byType := map[string]any{}
	if status, ok := content["status"].(map[string]any); ok {
		list, _ := status["conditions"].([]any)
		for _, one := range list {
			if c, ok := one.(map[string]any); ok {
				types = append(types, fmt.Sprint(c["type"]))
				byType[fmt.Sprint(c["type"])] = c
			}
		}
		status["conditions"] = byType
	}
	return content, types
}

// decode is the opposite of tree.
func decode(content map[string]any, types []string, into any) {
	left, list := at(content, inConditions), []any{}
	for _, kind := range types {
		if c, has := left[kind]; has {
			list = append(list, c)
			delete(left, kind)
		}
	}
	at(content, inStatus)["conditions"] = list
	raw, _ := json.Marshal(content)
	_ = json.Unmarshal(raw, into)
}

// at returns the part of a tree at a place.
func at(content map[string]any, place string) map[string]any {
	for _, key := range places[place] {
		part, ok := content[key].(map[string]any)
		if !ok {
			part = map[string]any{}
			content[key] = part
		}
		content = part
	}
	return content
}

// text returns a value as JSON. What is empty is equal to what is absent. A condition that is set back
// and written again has another time each time.
func text(value any) string {
	switch v := value.(type) {
	case []any:
		if len(v) == 0 {
			return "null"
		}
	case map[string]any:
		if v = maps.Clone(v); len(v) == 0 {
			return "null"
		}
		delete(v, "lastTransitionTime")
		value = v
	}
	raw, _ := json.Marshal(value)
	return string(raw)
}
