package reconcile

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// What is begun comes to its end before what a cluster says is begun: in a first sync the first names are there long before the last.
func TestWhatIsBegunComesFirst(t *testing.T) {
	queue := priorityqueue.New[ctrl.Request](t.Name())
	defer queue.ShutDown()
	source := new(memberSource)
	source.changed(types.NamespacedName{Name: "told early"})
	if err := source.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	source.changed(types.NamespacedName{Name: "told later"})
	queue.Add(request("", "the echo of a write"))
	var order []string
	for range 3 {
		item, _ := queue.Get()
		order = append(order, item.Name)
		queue.Done(item)
	}
	if order[0] != "the echo of a write" {
		t.Errorf("the order is %q", order)
	}
}
