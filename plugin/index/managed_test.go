package index

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Point 5 of the issue: a slice that others labelled adds no record to a headless service that the controller manages, and takes
// none; of a service of others, every slice counts.
func TestManagedServicesHaveManagedSlicesOnly(t *testing.T) {
	part := func(name, service, host string, managed bool, ip string) Slice {
		return Slice{SliceID: SliceID{"data", name}, Service: service, Cluster: "c1", Managed: managed,
			Ports: []Port{{"pg", "tcp", 5432}}, Endpoints: []Endpoint{{host, ips(ip)[0]}}}
	}
	x := build(t, []Service{
		{Key: NewKey("data", "db"), Type: Headless, Managed: true},
		{Key: NewKey("data", "others"), Type: Headless},
		{Key: NewKey("data", "spied"), Type: Headless, Managed: true},
		{Key: NewKey("data", "vip"), IPs: ips("10.1.0.1"), Managed: true},
	},
		part("db-1", "db", "db-0", true, "10.9.0.1"),
		part("spy-1", "db", "db-0", false, "10.66.0.1"), part("spy-2", "db", "spy", false, "10.66.0.2"), part("spy-3", "spied", "spy", false, "10.66.0.3"),
		part("others-1", "others", "h", false, "10.9.0.2"), part("others-2", "others", "h", true, "10.9.0.3"),
	)
	db, zone := "db.data.svc.clusterset.local.", ".data.svc.clusterset.local."
	for question, want := range map[string][]string{
		db + " A":              {"Success", "answer " + db + " 5 IN A 10.9.0.1"},
		"db-0.c1." + db + " A": {"Success", "answer db-0.c1." + db + " 5 IN A 10.9.0.1"},
		"spy.c1." + db + " A":  nxdomain,
		"_pg._tcp." + db + " SRV": {"Success", "additional db-0.c1." + db + " 5 IN A 10.9.0.1",
			"answer _pg._tcp." + db + " 5 IN SRV 0 100 5432 db-0.c1." + db},
		"spied" + zone + " A":  nxdomain,
		"others" + zone + " A": {"Success", "answer others" + zone + " 5 IN A 10.9.0.2", "answer others" + zone + " 5 IN A 10.9.0.3"},
		"vip" + zone + " A":    {"Success", "answer vip" + zone + " 5 IN A 10.1.0.1"},
	} {
		if diff := cmp.Diff(want, ask(x, testZone, question)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", question, diff)
		}
	}
}

// A service that changes hands takes or leaves the slices of others, and a slice that changes hands comes or goes.
func TestHandsChange(t *testing.T) {
	s := NewState()
	db := Service{Key: NewKey("data", "db"), Type: Headless}
	slice := Slice{SliceID: SliceID{"data", "db-1"}, Service: "db", Cluster: "c1", Endpoints: []Endpoint{{"h", ips("10.9.0.1")[0]}}}
	x := New(1)
	becomes := func(what string, want Result) {
		t.Helper()
		x = x.With(s.Drain(), 2)
		check(t, x)
		if got := x.whole(testZone, "h.c1.db.data.svc.clusterset.local.", 1).Result; got != want {
			t.Errorf("%s: result %d, want %d", what, got, want)
		}
	}
	s.SetService(db.Entry())
	s.SetSlice(slice)
	becomes("both are others'", Success)
	db.Managed = true
	if !s.SetService(db.Entry()) || s.SetService(db.Entry()) {
		t.Error("a service in other hands is no change, or one each time")
	}
	becomes("the service is the controller's", NameError)
	slice.Managed = true
	s.SetSlice(slice)
	becomes("and so is the slice", Success)
	s.SetService(Service{Key: db.Key, Managed: true}.Entry())
	becomes("it has no endpoints of its own", NameError)
	s.SetService(db.Entry())
	becomes("and has them again", Success)
	slice.Managed = false
	s.SetSlice(slice)
	becomes("the slice is others' again", NameError)
	db.Managed = false
	s.SetService(db.Entry())
	becomes("and so is the service", Success)
	s.DeleteService(db.Key)
	becomes("it is gone", NameError)
}

// A slice on standby has no record of the service itself, and the names of its hosts stay. If every
// slice is on standby, the name of the service exists without a record.
func TestSlicesOnStandbyHaveOnlyTheirHosts(t *testing.T) {
	part := func(service, cluster string, standby bool, ip string) Slice {
		return Slice{SliceID: SliceID{"data", service + cluster}, Service: service, Cluster: cluster, Managed: true, Standby: standby,
			Ports: []Port{{"pg", "tcp", 5432}}, Endpoints: []Endpoint{{"db-0", ips(ip)[0]}}}
	}
	x := build(t, []Service{{Key: NewKey("data", "db"), Type: Headless, Managed: true}, {Key: NewKey("data", "idle"), Type: Headless, Managed: true}},
		part("db", "c1", false, "10.9.0.1"), part("db", "c2", true, "10.9.0.2"), part("idle", "c2", true, "10.9.0.3"))
	db, idle := "db.data.svc.clusterset.local.", "idle.data.svc.clusterset.local."
	for question, want := range map[string][]string{
		db + " A":              {"Success", "answer " + db + " 5 IN A 10.9.0.1"},
		"db-0.c1." + db + " A": {"Success", "answer db-0.c1." + db + " 5 IN A 10.9.0.1"},
		"db-0.c2." + db + " A": {"Success", "answer db-0.c2." + db + " 5 IN A 10.9.0.2"},
		"_pg._tcp." + db + " SRV": {"Success", "additional db-0.c1." + db + " 5 IN A 10.9.0.1",
			"answer _pg._tcp." + db + " 5 IN SRV 0 100 5432 db-0.c1." + db},
		"db-0.c2." + idle + " A": {"Success", "answer db-0.c2." + idle + " 5 IN A 10.9.0.3"},
	} {
		if diff := cmp.Diff(want, ask(x, testZone, question)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", question, diff)
		}
	}
	if got := ask(x, testZone, idle+" A"); len(got) == 0 || got[0] != "NoData" {
		t.Errorf("all on standby: %q", got)
	}
}
