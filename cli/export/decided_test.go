package export

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// A new Service and its export reach the controller by two watches, in any order.
func TestDecided(t *testing.T) {
	valid := func(status metav1.ConditionStatus, reason mcsv1beta1.ServiceExportConditionReason) metav1.Condition {
		return metav1.Condition{Type: string(mcsv1beta1.ServiceExportConditionValid), Status: status, Reason: string(reason)}
	}
	ready := metav1.Condition{Type: string(mcsv1beta1.ServiceExportConditionReady), Status: metav1.ConditionTrue}
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		want       bool
	}{
		"no condition":                 {nil, false},
		"the Service is not known yet": {[]metav1.Condition{valid(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonNoService)}, false},
		"an invalid type":              {[]metav1.Condition{valid(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonInvalidServiceType)}, true},
		"valid":                        {[]metav1.Condition{valid(metav1.ConditionTrue, mcsv1beta1.ServiceExportReasonValid)}, false},
		"valid and ready":              {[]metav1.Condition{valid(metav1.ConditionTrue, mcsv1beta1.ServiceExportReasonValid), ready}, true},
	} {
		if got := decided(&mcsv1beta1.ServiceExport{Status: mcsv1beta1.ServiceExportStatus{Conditions: c.conditions}}); got != c.want {
			t.Errorf("%s: decided %v", name, got)
		}
	}
}
