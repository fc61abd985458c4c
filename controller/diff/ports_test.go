package diff

import (
	"fmt"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// A slice gets the former names of its ports, as far as the API's limit of ports allows. A port without a name is one with the name "".
func TestWithFormer(t *testing.T) {
	slice := &discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}}}
	if got := withFormer(slice, map[string]string{"": "http"}).Ports; len(got) != 2 || nameOf(got[1]) != "http" || *got[1].Port != 80 {
		t.Errorf("the ports are %v", got)
	}
	former := map[string]string{}
	for i := range 60 {
		name := fmt.Sprint("new-", i)
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: new(int32(81 + i))})
		former[name] = fmt.Sprint("old-", i)
	}
	if got := withFormer(slice, former).Ports; len(got) != 100 {
		t.Errorf("%d ports, and an API server takes 100", len(got))
	}
}
