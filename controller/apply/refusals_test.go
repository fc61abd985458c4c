package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/observed"
)

// refusing is an API server whose webhook denies each write, with another text each time.
type refusing struct {
	client.Writer
	asked int
}

func (r *refusing) Create(context.Context, client.Object, ...client.CreateOption) error {
	r.asked++
	return apierrors.NewBadRequest(fmt.Sprintf("admission webhook \"policy\" denied the request: decision %d", r.asked))
}

// An equal write is not sent again before the pause has passed, and gets the same answer until then: each event of the
// name, and the edit of the condition itself, would cause one more. Another write is sent at once.
func TestARefusedWriteIsNotRepeatedAtOnce(t *testing.T) {
	now := time.Now()
	var refusals Refusals
	api := &refusing{}
	create := func(name, version string) (time.Duration, error) {
		c := Writer{Client: api, Refusals: &refusals, Now: now}
		refusals.forget(now)
		err := c.create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}})
		return c.Next, err
	}
	pause, first := create("foo", "1")
	if pause != firstPause {
		t.Errorf("the first pause is %v", pause)
	}
	for i := range 200 {
		if _, again := create("foo", fmt.Sprint(i)); again.Error() != first.Error() {
			t.Fatalf("the answer has changed: %v", again)
		}
	}
	if api.asked != 1 {
		t.Errorf("asked %d times", api.asked)
	}
	if _, _ = create("bar", "1"); api.asked != 2 {
		t.Error("another write was not sent")
	}
	for want := 2 * firstPause; ; want = min(2*want, longestPause) {
		now = now.Add(pause)
		if pause, _ = create("foo", "1"); pause != want {
			t.Fatalf("the next pause is %v, want %v", pause, want)
		}
		if pause == longestPause {
			break
		}
	}
	now = now.Add(2*longestPause + time.Second)
	_, _ = create("baz", "1")
	if len(refusals.by) != 1 {
		t.Errorf("%d refusals are remembered of what was not tried for minutes", len(refusals.by))
	}
}

// The API server's answers to what it does not accept, as it was seen to give them, and those that are no refusal.
func TestWhichAnswersAreRefusals(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	webhook := func(code int32, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: `admission webhook "policy" denied the request: no`}}
	}
	for what, c := range map[string]struct {
		err   error
		want  bool
		field string
	}{
		"a quota":                       {apierrors.NewForbidden(services, "foo", errors.New("exceeded quota")), true, ""},
		"a webhook without a code":      {webhook(http.StatusBadRequest, ""), true, ""},
		"a webhook with the code 409":   {webhook(http.StatusConflict, metav1.StatusReasonConflict), true, ""},
		"a webhook with the code 404":   {webhook(http.StatusNotFound, metav1.StatusReasonNotFound), true, ""},
		"a webhook that is not there":   {apierrors.NewInternalError(errors.New(`failed calling webhook "policy"`)), true, ""},
		"a range that is full":          {apierrors.NewInternalError(errors.New("failed to allocate a serviceIP: range is full")), true, "spec.clusterIPs"},
		"too many requests":             {apierrors.NewTooManyRequests("busy", 1), true, ""},
		"a newer object":                {apierrors.NewConflict(services, "foo", errors.New("modified")), false, ""},
		"an object that is there":       {apierrors.NewAlreadyExists(services, "foo"), false, ""},
		"an API server that is stopped": {apierrors.NewServiceUnavailable("shutting down"), false, ""},
		"a connection that was refused": {errors.New("connection refused"), false, ""},
	} {
		var w Writer
		w.note(Created, &corev1.Service{}, wrap(c.err, "create", &corev1.Service{}))
		switch got := w.outcomes[0]; {
		case (got.Result == Refused) != c.want:
			t.Errorf("%s: the result is %v, want a refusal: %v", what, got.Result, c.want)
		case c.want && (got.Refusals[0].Field != c.field || got.Refusals[0].Message == ""):
			t.Errorf("%s: %+v, want the field %q", what, got.Refusals, c.field)
		}
	}
}

// One answer names each faulty port: they are left out in the order in which their indices stay right.
func TestEachFaultyPortIsNamed(t *testing.T) {
	var causes []metav1.StatusCause
	for i := range 12 {
		for _, of := range []string{"port", "name"} {
			causes = append(causes, metav1.StatusCause{Field: fmt.Sprintf("spec.ports[%d].%s", i, of), Message: "Invalid value"})
		}
	}
	got := refusalsOf(causes)
	if len(got) != 12 || got[0].Field != "spec.ports[11].port" || got[11].Field != "spec.ports[0].port" {
		t.Errorf("%+v", got)
	}
	got = refusalsOf(append(causes, metav1.StatusCause{Field: "spec.clusterIPs", Message: "already allocated"}))
	if want := (observed.Refusal{Field: "spec.clusterIPs", Message: "already allocated"}); len(got) != 1 || got[0] != want {
		t.Errorf("with another fault: %+v", got)
	}
}
