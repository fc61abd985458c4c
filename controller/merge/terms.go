package merge

import (
	"encoding/json"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// MaxTerms limits the text of mcs.AnnotationTerms, in bytes. All annotations of an object have room for
// 256 KiB. A Service has to have a thousand ports to come near.
const MaxTerms = 128 << 10

// Terms returns what peers read of a Service, as the text of mcs.AnnotationTerms. It is empty if it is
// too long: peers then do not know the Service.
func (s *ServiceSpec) Terms() string {
	text, _ := json.Marshal(s) // Strings and numbers always marshal.
	if len(text) > MaxTerms {
		return ""
	}
	return string(text)
}

// ReadTerms sets the Service that a peer has described, and reports whether that worked: the text can be
// too long or invalid, or describe a Service that cannot be exported.
func (s *ServiceSpec) ReadTerms(text string) bool {
	if len(text) > MaxTerms || json.Unmarshal([]byte(text), s) != nil {
		return false
	}
	return !s.External && (s.Type == mcsv1beta1.ClusterSetIP || s.Type == mcsv1beta1.Headless)
}
