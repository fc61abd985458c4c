package member

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestAnAnnouncementIsReadAsItWasWritten(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for name, a := range map[string]Announcement{
		"everything":             {ID: "member1", UID: "8a6b", Version: "v1.2.3-rc.1+x", Properties: "region.topology.kubernetes.io=eu,tier=gold", Limited: true, Exports: "shop,data", Renewed: now},
		"the least":              {ID: "member1", Renewed: now},
		"no namespace to export": {ID: "member1", Limited: true, Renewed: now},
	} {
		l, unset := a.Lease("here", time.Minute)
		if got := Read(l); got != a {
			t.Errorf("%s: %+v is read as %+v", name, a, got)
		}
		if len(l.Annotations)+len(unset) != 4 {
			t.Errorf("%s: %v are set and %v are not", name, l.Annotations, unset)
		}
	}
}

// What a peer announces is bounded, whatever its API server sends.
func TestWhatIsReadIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	read := func(id string, annotations map[string]string) Announcement {
		return Read(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &id}})
	}
	got := read(long, map[string]string{annotationUID: long, annotationVersion: long, annotationProperties: "a=" + long, annotationExports: long})
	if want := (Announcement{ID: long[:63] + "...", Limited: true}); got != want {
		t.Errorf("%+v is read", got)
	}
	if got := read("member1", map[string]string{annotationVersion: "v1 \x1b[31m"}); got.Version != "" {
		t.Errorf("the version is %q", got.Version)
	}
	if got := Read(&coordinationv1.Lease{}); got != (Announcement{}) {
		t.Errorf("an empty Lease announces %+v", got)
	}
}

func TestProperties(t *testing.T) {
	for text, want := range map[string]string{"": "", "region": "", "a=b,c=d": "a=b,c=d", "a=b,a=": "a=", "a in (b)": ""} {
		if got := labels.Set(Announcement{Properties: text}.AllProperties()).String(); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	if got := (Announcement{}).Namespaces(); got != nil {
		t.Errorf("without a limit: %v", got)
	}
	for text, want := range map[string][]string{"": {}, ",": {}, "shop": {"shop"}, "shop, data,": {"shop", "data"}} {
		got := Announcement{Limited: true, Exports: text}.Namespaces()
		if got == nil || len(got) != len(want) {
			t.Errorf("%q gives %v, want %v", text, got, want)
		}
		for _, name := range want {
			if !got[name] {
				t.Errorf("%q gives %v, want %v", text, got, want)
			}
		}
	}
}

func TestSame(t *testing.T) {
	a := Announcement{ID: "member1", Renewed: time.Unix(1, 0)}
	b := Announcement{ID: "member1", Renewed: time.Unix(2, 0)}
	if !a.Same(b) || a.Same(Announcement{ID: "member2"}) {
		t.Error("only the time of the renewal may differ")
	}
}
