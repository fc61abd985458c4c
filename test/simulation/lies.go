package simulation

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/apiserver"
)

// forge has the API server of a cluster show an object that it would not accept: "forge serviceexport foo {"metadata": {"creationTimestamp":
// "1990-01-01T00:00:00Z"}}". From then on, the cluster is a hostile peer: the judges ignore its exports.
func (s *story) forge(c *cluster, words []string) error {
	object, err := c.named(words)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(object)
	if err := json.Unmarshal([]byte(strings.Join(words[2:], " ")), object); err != nil {
		return fmt.Errorf("the content of %s: %w", words[1], err)
	}
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	s.judges.lies(c.id)
	return c.server.Put(object)
}

// clock sets the clocks of a cluster, those of its API server and its controller: "clock +1m", "clock -1m", "clock 0s".
func (s *story) clock(c *cluster, words []string) error {
	ahead, err := time.ParseDuration(strings.TrimPrefix(words[0], "+"))
	if err != nil {
		return fmt.Errorf("%q: want a time such as +1m, -1m or 0s", words[0])
	}
	c.ahead.Store(int64(ahead))
	return nil
}

// lies notes that a cluster is hostile.
func (j *judges) lies(cluster string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.facts[cluster].liar, j.disturbance = true, time.Now()
}

// anyLiar reports whether a cluster is hostile.
func (j *judges) anyLiar() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.isLied()
}

func (j *judges) isLied() bool {
	for _, f := range j.facts {
		if f.liar {
			return true
		}
	}
	return false
}

// lied reports whether a hostile cluster exports a name.
func (j *judges) lied(name types.NamespacedName) bool {
	for _, f := range j.facts {
		if f.liar && get[*mcsv1beta1.ServiceExport](f, name) != nil {
			return true
		}
	}
	return false
}

// judgeGranted wants a controller to write nothing into a namespace that is nobody's to share.
func (j *judges) judgeGranted(f *facts, r *apiserver.Request) {
	exercises[granted].Add(1)
	if strings.HasPrefix(r.Namespace, "kube-") && !f.liar && !isSignOfLife(r) {
		j.say(granted, f.id, "the controller writes %s %s", r.Resource.Resource, r.NamespacedName)
	}
}

// endOfLies wants each name that was exported before a hostile peer exported it to have the type and the ports of its oldest export.
func (j *judges) endOfLies(f *facts) error {
	for key, object := range f.objects {
		imp, is := object.(*mcsv1beta1.ServiceImport)
		if !is || f.liar || !ownership.OfImport(imp) || !j.lied(key.NamespacedName) {
			continue
		}
		oldest := j.oldest(f, key.NamespacedName)
		if oldest == nil {
			continue
		}
		exercises[granted].Add(1)
		if headless := oldest.Spec.ClusterIP == corev1.ClusterIPNone; headless != (imp.Spec.Type == mcsv1beta1.Headless) {
			return broken{granted, fmt.Sprintf("in %s, %s is %s by the word of a hostile peer", f.id, key.NamespacedName, imp.Spec.Type)}
		}
		for _, p := range oldest.Spec.Ports {
			if !hasPort(imp, p) {
				return broken{granted, fmt.Sprintf("in %s, %s lacks the port %s %d/%s by the word of a hostile peer: %+v", f.id, key.NamespacedName, p.Name, p.Port, p.Protocol, imp.Spec.Ports)}
			}
		}
	}
	return nil
}

func hasPort(imp *mcsv1beta1.ServiceImport, want corev1.ServicePort) bool {
	for _, p := range imp.Spec.Ports {
		if p.Name == want.Name && p.Port == want.Port && p.Protocol == want.Protocol {
			return true
		}
	}
	return false
}

// believed is how long a peer has to be read without a pause until the ages that it states are not believed any more.
const believed = 6 * time.Minute

// oldest is the Service of the first export of a name, of those that a cluster reads; nil if a hostile one was there before, or in a time in which
// its word counts.
func (j *judges) oldest(f *facts, name types.NamespacedName) (svc *corev1.Service) {
	var first, lied time.Time
	for id, from := range j.facts {
		export, is := get[*mcsv1beta1.ServiceExport](from, name), get[*corev1.Service](from, name)
		since := from.exported[name]
		switch {
		case export == nil || is == nil || !f.reads(id):
		case from.liar:
			lied = since
		case svc == nil || since.Before(first):
			svc, first = is, since
		}
	}
	if !first.Before(lied) || lied.Sub(j.faulty) < believed {
		return nil
	}
	return svc
}

// lies are what a hostile peer shows. Its addresses are of its own network, or of no cluster's.
func (d *dice) lies(m string) string {
	n, number := d.pick("foo", "foo", "bar", "kube-system/foo"), strings.TrimPrefix(m, "member")
	name := n[strings.LastIndex(n, "/")+1:]
	owned := `"metadata": {"labels": {"kubernetes.io/service-name": "` + name + `", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}}, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]`
	return m + ": forge " + d.pick(
		`serviceexport `+n+` {"metadata": {"creationTimestamp": "1990-01-01T00:00:00Z"}}`,
		`serviceexport `+n+` {"metadata": {"creationTimestamp": "2901-01-01T00:00:00Z"}, "status": {"conditions": [{"type": "Valid", "status": "True"}, {"type": "Conflict", "status": "True", "message": "`+strings.Repeat("x", 5000)+`"}]}}`,
		`serviceexport `+n+` {"metadata": {"annotations": {"clusterset-dns.io/prefer-clusters": "`+m+`"}}, "spec": {"exportedLabels": {"a/b/c": "`+strings.Repeat("y", 300)+`"}}}`,
		`service `+n+` {"spec": {"type": "ClusterIP", "clusterIP": "10.`+number+`.0.9", "ports": [{"name": "http", "port": 80, "protocol": "UDP"}, {"name": "HTTP_", "port": 0, "protocol": "ICMP"}, {"name": "x", "port": 99999}]}}`,
		`service `+n+` {"spec": {"type": "ClusterIP", "clusterIP": "None", "ports": [{"name": "http", "port": 80}]}}`,
		`service `+n+` {"spec": {"type": "ClusterIP", "clusterIP": "10.`+number+`.0.9", "sessionAffinity": "Often", "ipFamilies": ["IPv5"], "ports": [{"port": 80}, {"port": 80}]}}`,
		`service `+n+` {"spec": {"type": "ExternalName", "externalName": "example.org"}}`,
		`endpointslice `+n+`-l {"addressType": "IPv4", `+owned+`, "endpoints": [{"addresses": ["127.0.0.1"]}, {"addresses": ["10.9.`+number+`.66"], "hostname": "`+strings.Repeat("z", 300)+`"}]}`,
		`endpointslice `+n+`-m {"addressType": "IPv6", `+owned+`, "endpoints": [{"addresses": ["10.9.`+number+`.66"]}, {"addresses": []}, {"addresses": ["no address"]}]}`,
		`endpointslice `+n+`-n {"addressType": "FQDN", `+owned+`, "endpoints": [{"addresses": ["example.org"]}]}`,
		`endpointslice `+n+`-o {"addressType": "IPv4", "metadata": {"labels": {"multicluster.kubernetes.io/service-name": "`+name+`", "multicluster.kubernetes.io/source-cluster": "member1", "endpointslice.kubernetes.io/managed-by": "multicluster-controller.clusterset-dns.io"}}, "endpoints": [{"addresses": ["10.9.`+number+`.66"]}]}`,
		`endpointslice `+n+`-0 {"addressType": "IPv4", "metadata": {"labels": {"multicluster.kubernetes.io/service-name": "`+name+`", "multicluster.kubernetes.io/source-cluster": "`+m+`", "endpointslice.kubernetes.io/managed-by": "multicluster-controller.clusterset-dns.io"}, "annotations": {"clusterset-dns.io/terms": "{\"Type\":\"Headless\",\"Ports\":[{\"name\":\"HTTP_\",\"port\":99999}],\"Affinity\":\"Often\",\"Families\":[\"IPv5\"]}"}}, "endpoints": []}`,
		`lease multicluster-system/multicluster-member {"spec": {"holderIdentity": "member1"}}`,
		`namespace shop {"metadata": {"labels": {"clusterset-dns.io/export": "true"}}}`,
	)
}
