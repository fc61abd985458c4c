package plan

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// C17, within what a Service can have: the API accepts 1 s to one day.
func TestSessionAffinityTimeout(t *testing.T) {
	for _, test := range []struct {
		name          string
		seconds, want int32
		note          string
	}{
		{name: "a second is the least", seconds: 1, want: 1},
		{name: "none is replaced by the API's default and told", seconds: 0, want: 10800, note: "0 s is out of range"},
		{name: "a day is the most", seconds: 86400, want: 86400},
		{name: "a second more is replaced and told", seconds: 86401, want: 10800, note: "86401 s is out of range"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) {
				i.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				i.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &test.seconds}}
			}))
			w.settle(t)
			equal(t, "timeout", *w.svc().Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds, test.want)
			equal(t, "told", strings.Contains(w.message(), "left out"), test.note != "")
			equal(t, "note", strings.Contains(w.message(), test.note), true)
		})
	}
}
