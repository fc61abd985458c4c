// Package mcs contains what both the plugin and the controller need to know about the Multi-Cluster
// Services API.
package mcs

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Versions are the versions that can be read and written, the best first. No field differs between
// them (A2), so one Go type is used for both.
var Versions = []schema.GroupVersion{schema.GroupVersion(mcsv1beta1.GroupVersion), schema.GroupVersion(mcsv1alpha1.GroupVersion)}
