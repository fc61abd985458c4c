package peers

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/internal/reflector"
)

// profileOf decodes the status of a ClusterProfile.
func profileOf(t *testing.T, status string) profile {
	t.Helper()
	var read clusterProfile
	err := json.Unmarshal([]byte(`{"status": `+status+`}`), &read)
	read.Complete(err)
	kept, ok := trimProfile(&read)
	if !ok {
		t.Fatal("the profile is ignored")
	}
	return kept
}

// provider returns an access provider in JSON, with fields in addition to its server.
func provider(name, server string, more ...string) string {
	return fmt.Sprintf(`{"name": %q, "cluster": {"server": %q%s}}`, name, server, strings.Join(more, ""))
}

func providers(all ...string) string {
	return `{"accessProviders": [` + strings.Join(all, ", ") + `]}`
}

const east1 = "https://east.example:6443"

// TestProfileGivesTheFirstAddress: by the name of the provider, whatever the order in the list.
func TestProfileGivesTheFirstAddress(t *testing.T) {
	other := provider("b", "https://other.example")
	for name, c := range map[string]struct {
		status string
		want   address
	}{
		"one provider":              {providers(provider("a", east1)), address{server: east1}},
		"first by name":             {providers(other, provider("a", east1)), address{server: east1}},
		"the first is not https":    {providers(provider("a", "http://east.example"), other), address{server: "https://other.example"}},
		"the first is not a URL":    {providers(provider("a", "https://%zz"), other), address{server: "https://other.example"}},
		"a server with a password":  {providers(provider("a", "https://u:p@east.example"), other), address{server: "https://other.example"}},
		"a server that is too long": {providers(provider("a", "https://"+strings.Repeat("a", maxURL)), other), address{server: "https://other.example"}},
		"the older field":           {`{"credentialProviders": [` + provider("a", east1) + `]}`, address{server: east1}},
		"both fields":               {`{"credentialProviders": [` + other + `], "accessProviders": [` + provider("a", east1) + `]}`, address{server: east1}},
		"another name and a proxy": {providers(provider("a", east1, `, "tls-server-name": "kubernetes", "proxy-url": "socks5://proxy.example:1080", "disable-compression": true`)),
			address{server: east1, serverName: "kubernetes", proxy: "socks5://proxy.example:1080"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := profileOf(t, c.status); got.fault != "" || got.address != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestFaultsOfAProfile(t *testing.T) {
	var many []string
	for i := range maxProviders + 1 {
		many = append(many, provider(fmt.Sprint(i), east1))
	}
	for name, c := range map[string]struct{ status, says string }{
		"no status":                 {`{}`, "has no access provider: status.accessProviders must contain one"},
		"no https server":           {providers(provider("a", "http://east.example"), provider("b", "")), "has no access provider whose server is an https:// URL"},
		"too many providers":        {providers(many...), "has 65 access providers, the limit is 64"},
		"a list that is a text":     {`{"accessProviders": "east"}`, "cannot be decoded"},
		"a server without a check":  {providers(provider("a", east1, `, "insecure-skip-tls-verify": true`)), `"a", whose cluster sets insecure-skip-tls-verify, which is not permitted`},
		"a file of this controller": {providers(provider("a", east1, `, "certificate-authority": "/ca"`)), "certificate-authority, which is not permitted"},
		"an authority, not base64":  {providers(provider("a", east1, `, "certificate-authority-data": "?"`)), "certificate-authority-data is not base64"},
		"an authority, not PEM":     {providers(provider("a", east1, `, "certificate-authority-data": "`+base64.StdEncoding.EncodeToString([]byte("ca"))+`"`)), "is not a certificate in PEM"},
		"a long authority":          {providers(provider("a", east1, `, "certificate-authority-data": "`+strings.Repeat("a", maxCA+1)+`"`)), "certificate-authority-data has 65537 bytes, the limit is 65536"},
		"a long name":               {providers(provider("a", east1, `, "tls-server-name": "`+strings.Repeat("a", 254)+`"`)), "tls-server-name has 254 bytes, the limit is 253"},
		"a proxy of another kind":   {providers(provider("a", east1, `, "proxy-url": "file:///proxy"`)), "proxy-url is not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := profileOf(t, c.status); !strings.Contains(got.fault, c.says) || got.address != (address{}) {
				t.Errorf("got %+v, want the fault %q", got, c.says)
			}
		})
	}
}

// TestProfileOfACluster: the property counts, otherwise the name. Two profiles for one ID are none.
func TestProfileOfACluster(t *testing.T) {
	good := address{server: east1}
	property := func(value string) profile { return profile{id: value, address: good} }
	for name, c := range map[string]struct {
		all  map[string]profile
		says string // "" for the address
	}{
		"by its property":                   {map[string]profile{"cluster-1": property("east"), "cluster-2": property("west")}, ""},
		"by its name":                       {map[string]profile{"east": {address: good}, "west": property("west")}, ""},
		"the property before the name":      {map[string]profile{"cluster-1": property("east"), "east": {fault: "is of no use"}}, ""},
		"no profile":                        {map[string]profile{"west": property("west")}, "no ClusterProfile in the namespace fleet has the property cluster.clusterset.k8s.io=east or the name east"},
		"a profile of another cluster":      {map[string]profile{"east": property("west")}, "the ClusterProfile fleet/east has the property cluster.clusterset.k8s.io=west: want east"},
		"two profiles":                      {map[string]profile{"b": property("east"), "a": property("east")}, "the ClusterProfiles a and b in the namespace fleet have the same property"},
		"the fault of a profile":            {map[string]profile{"east": {fault: "is of no use"}}, "the ClusterProfile fleet/east is of no use"},
		"a profile without anything useful": {map[string]profile{"cluster-1": {id: "east", fault: "is of no use"}}, "the ClusterProfile fleet/cluster-1 is of no use"},
	} {
		t.Run(name, func(t *testing.T) {
			i := inventory{namespace: "fleet", profiles: profiles{}, synced: true}
			for name, one := range c.all {
				i.profiles.put(types.NamespacedName{Namespace: "fleet", Name: name}, one, nil)
			}
			switch got, err := i.addressOf("east"); {
			case c.says == "" && (err != nil || got != good):
				t.Errorf("got %+v, %v", got, err)
			case c.says != "" && (err == nil || !strings.HasPrefix(err.Error(), c.says)):
				t.Errorf("got %+v, %v; want %q", got, err, c.says)
			}
		})
	}
}

// TestUnreadProfilesAreNotAbsent: before the first list there is no answer, and a failure afterwards
// leaves what was read.
func TestUnreadProfilesAreNotAbsent(t *testing.T) {
	i := inventory{namespace: "fleet", profiles: profiles{}}
	if _, err := i.addressOf("east"); !errors.Is(err, errUnread) {
		t.Errorf("before the first list: %v", err)
	}
	i.trouble = profileTrouble("fleet", reflector.ErrAbsent)
	if _, err := i.addressOf("east"); err == nil || !strings.Contains(err.Error(), "install the CRD") {
		t.Errorf("without the CRD: %v", err)
	}
	i.profiles[types.NamespacedName{Namespace: "fleet", Name: "east"}], i.synced = profile{address: address{server: east1}}, true
	if got, err := i.addressOf("east"); err != nil || got.server != east1 {
		t.Errorf("after a list, while the watch fails: %v, %v", got, err)
	}
	if _, err := i.addressOf("west"); !errors.Is(err, i.trouble) {
		t.Errorf("an unknown profile, while the watch fails: %v", err)
	}
}

func TestTooManyProfiles(t *testing.T) {
	i := inventory{namespace: "fleet", profiles: profiles{}, synced: true}
	add := func(name string) {
		i.profiles.put(types.NamespacedName{Namespace: "fleet", Name: name}, profile{address: address{server: east1}}, nil)
	}
	for n := range maxProfiles {
		add(fmt.Sprint(n))
	}
	if _, err := i.addressOf("7"); err != nil {
		t.Error(err)
	}
	add("one more")
	if _, err := i.addressOf("7"); err == nil || !strings.Contains(err.Error(), "more than 1000 ClusterProfiles") {
		t.Errorf("got %v", err)
	}
}
