package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset-dns/multicluster/cli/command"
	"github.com/clusterset-dns/multicluster/cli/explain/chain"
	"github.com/clusterset-dns/multicluster/cli/testing/node"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { world.Main(m) }

// lab is two joined clusters: member1 exports, and member2 asks. In member2, the cluster's own CoreDNS forwards the zone to two others with the
// plugin. All three are real, and are reached through the API server and a node.
type lab struct {
	*testing.T
	all *testing.T // that the servers end with
	*world.World
	node    *node.Node
	program string // CoreDNS
	servers map[string]*server
	// frozen keeps the kubelet's part of a test from starting servers again.
	frozen bool
	// gate is the way of multicluster-dns-1 to the API server, if it is another one than that of the others.
	gate *faultproxy.Proxy
	// stopRival ends another writer.
	stopRival func()
	// resume ends what a server before the API server of member1 does.
	resume func()
}

// server is a CoreDNS that runs as a pod.
type server struct {
	corefile, address string
	running           *kube.Program
	uid               string // of the pod, and what else a restart follows from
}

// The pods of DNS servers, each with the ConfigMap that it reads.
var dnsPods = []struct{ namespace, name, config, account, label string }{
	{"multicluster-dns", "multicluster-dns-0", "multicluster-dns", "multicluster-dns", "app.kubernetes.io/name=multicluster-dns"},
	{"multicluster-dns", "multicluster-dns-1", "multicluster-dns", "multicluster-dns", "app.kubernetes.io/name=multicluster-dns"},
	{"kube-system", "coredns-0", "coredns", "coredns", "k8s-app=kube-dns"},
}

const (
	clusterDNS = "10.0.0.10"
	secondDNS  = "10.0.0.53"
	closed     = "127.0.0.1:1"
)

// ownCorefile is what a cluster has after the quickstart.
const ownCorefile = `.:53 {
    errors
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    forward . /etc/resolv.conf
    cache 30
    loop
    reload
}
`

const forwardBlock = `
clusterset.local:53 {
    errors
    cache 5
    forward . 10.0.0.53
}
`

func newLab(t *testing.T) *lab {
	t.Helper()
	program, err := binaries.Program("coredns")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{T: t, all: t, World: world.New(t, "member1", "member2"), program: program, servers: map[string]*server{}}
	l.node = node.Start(t, l.Clusters["member2"].Kube)
	l.start("member1")
	l.start("member2")
	l.sh("kubectl multicluster join member1 member2")
	l.installDNS()
	return l
}

// start starts a controller. It connects to no endpoint: these have addresses outside of this machine. A peer is silent after a tenth of
// the usual time.
func (l *lab) start(id string, flags ...string) {
	l.Helper()
	l.StartController(id, append(flags, "--probe-peers=false", "--heartbeat-interval=3s")...)
}

// restart ends a controller and starts it again, so that it asks its peers again.
func (l *lab) restart(id string, flags ...string) {
	l.Helper()
	l.StopController(id)
	l.start(id, flags...)
}

// sh runs a command that was printed, beside a node that ends pods.
func (l *lab) sh(command string) {
	l.Helper()
	ctx, stop := context.WithCancel(l.all.Context())
	defer stop()
	go l.terminate(ctx)
	world.Shell(l.T, l.Kubeconfig, command)
}

// terminate lets pods end that are being deleted, as a node does. kubectl waits for it.
func (l *lab) terminate(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, of := range dnsPods {
			pods := l.Clusters["member2"].Kube.CoreV1().Pods(of.namespace)
			if found, err := pods.Get(ctx, of.name, metav1.GetOptions{}); err == nil && found.DeletionTimestamp != nil {
				_ = pods.Delete(ctx, of.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			}
		}
	}
}

// apply applies manifests to a cluster.
func (l *lab) apply(id, namespace, text string) {
	l.Helper()
	if err := l.Clusters[id].Apply(l.all.Context(), namespace, text); err != nil {
		l.Fatal(err)
	}
}

// remove deletes what manifests name.
func (l *lab) remove(id, namespace, text string) {
	l.Helper()
	if err := l.Clusters[id].Delete(l.all.Context(), namespace, text); err != nil {
		l.Fatal(err)
	}
}

// installDNS makes what a cluster's DNS consists of. The addresses are fixed, so that golden files contain them.
func (l *lab) installDNS() {
	l.Helper()
	const ports = `ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53}]`
	l.apply("member2", "", `
apiVersion: v1
kind: Namespace
metadata: {name: multicluster-dns}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIP: `+clusterDNS+`, selector: {k8s-app: kube-dns}, `+ports+`}
---
apiVersion: v1
kind: Service
metadata: {name: multicluster-dns, namespace: multicluster-dns}
spec: {clusterIP: `+secondDNS+`, `+ports+`}
`)
	l.Kubectl("member2", "apply", "--server-side", "--force-conflicts", "-k", filepath.Join(binaries.Root(), "deploy", "plugin", "server"))
	l.corefile("coredns", ownCorefile+forwardBlock)
	l.kubelet()
}

// corefile writes a Corefile of the namespace kube-system.
func (l *lab) corefile(name, text string) {
	l.Helper()
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"Corefile": text},
	})
	if err != nil {
		l.Fatal(err)
	}
	l.apply("member2", "kube-system", string(manifest))
}

// kubelet does what a Deployment and its node do: it creates pods that are missing, and runs a CoreDNS in each, with the Corefile of now.
func (l *lab) kubelet() {
	l.Helper()
	if l.frozen {
		return
	}
	for _, of := range dnsPods {
		pod := l.dnsPod(of.namespace, of.name, of.account, of.label)
		config, err := l.Clusters["member2"].Kube.CoreV1().ConfigMaps(of.namespace).Get(l.all.Context(), of.config, metav1.GetOptions{})
		if err != nil {
			l.Fatal(err)
		}
		l.run(of.namespace, of.name, of.account, string(pod.UID), config.Data["Corefile"])
	}
}

func (l *lab) dnsPod(namespace, name, account, label string) *corev1.Pod {
	l.Helper()
	pods := l.Clusters["member2"].Kube.CoreV1().Pods(namespace)
	found, err := pods.Get(l.all.Context(), name, metav1.GetOptions{})
	if err == nil && found.DeletionTimestamp == nil {
		return found
	}
	if err != nil && !apierrors.IsNotFound(err) {
		l.Fatal(err)
	}
	if err == nil {
		l.ended(namespace, name)
	}
	key, value, _ := strings.Cut(label, "=")
	no := false
	made, err := pods.Create(l.all.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{key: value}},
		Spec: corev1.PodSpec{
			NodeName: node.Name, ServiceAccountName: account, AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "coredns", Image: "coredns", Ports: []corev1.ContainerPort{{Name: "dns-tcp", ContainerPort: 1053}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		l.Fatal(err)
	}
	l.node.Log(namespace, name, "") // a new pod has no log of the one before
	return l.podStatus(made, true, "")
}

// podStatus reports a pod as its node does.
func (l *lab) podStatus(pod *corev1.Pod, ready bool, waiting string) *corev1.Pod {
	l.Helper()
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	container := corev1.ContainerStatus{Name: pod.Spec.Containers[0].Name, Ready: ready}
	if waiting != "" {
		container.State.Waiting = &corev1.ContainerStateWaiting{Reason: waiting}
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
		ContainerStatuses: []corev1.ContainerStatus{container},
	}
	done, err := l.Clusters["member2"].Kube.CoreV1().Pods(pod.Namespace).UpdateStatus(l.all.Context(), pod, metav1.UpdateOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return done
}

// ended confirms to the API server that a pod that is being deleted has ended.
func (l *lab) ended(namespace, name string) {
	l.Helper()
	err := l.Clusters["member2"].Kube.CoreV1().Pods(namespace).Delete(l.all.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	if err != nil && !apierrors.IsNotFound(err) {
		l.Fatal(err)
	}
}

// run runs a CoreDNS with a Corefile, unless it runs already.
func (l *lab) run(namespace, name, account, uid, corefile string) {
	l.Helper()
	s, second := l.servers[name], l.servers["multicluster-dns-0"]
	if second != nil && s != second { // Its address changes with its process, other than that of a Service.
		uid += second.address
	}
	if s != nil && s.uid == uid && s.corefile == corefile {
		return
	}
	if s != nil {
		s.running.Stop()
	}
	c := l.Clusters["member2"]
	kubeconfig := c.Kubeconfig
	if account == "multicluster-dns" { // The rights of the others are not what these tests are about.
		var err error
		if _, kubeconfig, err = c.ServiceAccount(l.all.Context(), namespace, account); err != nil {
			l.Fatal(err)
		}
	}
	if l.gate != nil && name == "multicluster-dns-1" {
		kubeconfig = l.through(l.gate, kubeconfig)
	}
	port, err := kube.FreePort()
	if err != nil {
		l.Fatal(err)
	}
	s = &server{corefile: corefile, address: fmt.Sprintf("127.0.0.1:%d", port), uid: uid}
	file := filepath.Join(l.all.TempDir(), "Corefile")
	if err := os.WriteFile(file, []byte(l.onLoopback(corefile, port, kubeconfig)), 0o600); err != nil {
		l.Fatal(err)
	}
	s.running, err = c.Beside(l.all.Context(), func(ctx context.Context) error {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
		if err == nil {
			err = connection.Close()
		}
		return err
	}, l.program, "-conf", file)
	if err != nil {
		l.Fatalf("%v\n%s", err, l.onLoopback(corefile, port, kubeconfig))
	}
	l.all.Cleanup(s.running.Stop)
	l.servers[name] = s
	l.node.Serve(namespace, name, s.address)
}

var (
	serverKey = regexp.MustCompile(`(?m)^([^\s{#]+?)(:53)? \{$`)
	ownPort   = regexp.MustCompile(`(?m)^ +(ready|loop|loadbalance|prometheus .*)\n|^ +health \{\n.*\n +\}\n`)
	needsAPI  = regexp.MustCompile(`(?m)^( +)(multicluster|kubernetes)([^{\n]*[^{\n ])?( \{)?$`)
	forwarded = regexp.MustCompile(`(?m)^( +forward \S+) (\S+)`)
)

// onLoopback changes what a Corefile cannot have outside of a pod: ports, the way to the API server, and addresses of Services.
func (l *lab) onLoopback(text string, port int, kubeconfig string) string {
	text = ownPort.ReplaceAllString(text, "")
	text = serverKey.ReplaceAllString(text, fmt.Sprintf("$1:%d {\n    bind 127.0.0.1", port))
	text = needsAPI.ReplaceAllStringFunc(text, func(line string) string {
		if before, opens := strings.CutSuffix(line, " {"); opens {
			return before + " {\n        kubeconfig " + kubeconfig
		}
		return line + " {\n        kubeconfig " + kubeconfig + "\n    }"
	})
	text = strings.ReplaceAll(text, "    forward . /etc/resolv.conf\n", outside)
	return forwarded.ReplaceAllStringFunc(text, func(line string) string {
		parts := forwarded.FindStringSubmatch(line)
		if s := l.servers["multicluster-dns-0"]; s != nil && parts[2] == secondDNS {
			return parts[1] + " " + s.address
		}
		return parts[1] + " " + closed
	})
}

// outside stands for a resolver outside of the cluster, which knows no name.
const outside = `    template ANY ANY {
        rcode NXDOMAIN
        authority ". 5 IN SOA a.root. nstld.root. 1 1800 900 604800 5"
    }
`

// through is a kubeconfig with the address of a proxy before the API server of member2.
func (l *lab) through(proxy *faultproxy.Proxy, kubeconfig string) string {
	l.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		l.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + proxy.Address()
	}
	path := filepath.Join(l.all.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		l.Fatal(err)
	}
	return path
}

// again is the time between two looks at a name, which take a core for a twentieth of a second.
const again = 300 * time.Millisecond

// question is how the command is asked about a name in member2.
func question(name string, args []string) []string {
	return append([]string{"explain", name, "--context", "member2"}, args...)
}

// facts reads what the command would explain a name from.
func (l *lab) facts(name string, args []string) *chain.Facts {
	l.Helper()
	l.kubelet()
	facts, err := command.Facts(l.Context(), append([]string{"--kubeconfig", l.Kubeconfig}, question(name, args)...)...)
	if err != nil {
		l.Fatal(err)
	}
	return facts
}

// whole waits until the chain of a name is whole, and returns what the command says.
func (l *lab) whole(name string, args ...string) world.Result {
	l.Helper()
	var last world.Result
	kube.EventuallyEvery(l, again, name+" is whole", func() error {
		if report := chain.Walk(l.facts(name, args)); report.Result != chain.ResultWhole {
			return errors.New(printed(l.T, report))
		}
		if last = l.World.Run(question(name, args)...); last.Status != 0 {
			return errors.New(last.Out + last.Err)
		}
		return nil
	})
	return last
}

// shows waits until the chain of a name is as the fault makes it, until the facts are the recorded ones, and the output is that of the golden
// file. Caches of DNS servers and retries of controllers make it pass through others. With -update, the facts must stay the same for longer
// than a cache keeps an answer.
func (l *lab) shows(f fault) *chain.Report {
	l.Helper()
	const cached = 6 * time.Second
	name, args := named(f.ask, f.name), args(f.args, f.name)
	var report *chain.Report
	var facts, text string
	var since time.Time
	kube.EventuallyEvery(l, again, name+" is as "+f.name+" makes it", func() error {
		found := l.facts(name, args)
		if read := record(l.T, found, f.name); read != facts {
			facts, since = read, time.Now()
		}
		report = chain.Walk(found)
		switch text = printed(l.T, report); {
		case !f.is(report):
			return errors.New(text)
		case *update && time.Since(since) < cached:
			return fmt.Errorf("it changes: %s", text)
		case !*update && text != expected(l.T, f.name+".txt"):
			return fmt.Errorf("the output is\n%s\nwant (-update writes it)\n%s", text, expected(l.T, f.name+".txt"))
		case !*update && differences(l.T, recorded(l.T, f.name), facts) != "":
			return fmt.Errorf("the facts differ from those of %s.yaml (CI_FULL=1 and -update write it):\n%s", f.name, differences(l.T, recorded(l.T, f.name), facts))
		}
		said := l.World.Run(question(name, args)...)
		if want := map[bool]int{true: 0, false: 1}[report.Result == chain.ResultWhole]; said.Status != want || steady(said.Out) != text {
			return fmt.Errorf("the command ends with %d, and says\n%s%s\nwant\n%s", said.Status, said.Out, said.Err, text)
		}
		return nil
	})
	if *update {
		writeGolden(l.T, f.name+".txt", text)
		writeRecorded(l.T, f.name, facts)
	}
	return report
}

// fixedIPs are the ClusterIPs that a test has chosen, and the ranges of the clusters.
var fixedIPs = []string{clusterDNS, secondDNS, "10.0.0.0", "10.0.0.128"}

var (
	someIP   = regexp.MustCompile(`\b10\.0\.0\.(\d+)\b`)
	somePort = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	someRest = regexp.MustCompile(`refused: \d+`) // of all namespaces, which depends on the tests before
	someTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
)

// steady replaces what differs from run to run.
func steady(text string) string {
	text = someIP.ReplaceAllStringFunc(text, func(ip string) string {
		if slices.Contains(fixedIPs, ip) {
			return ip
		}
		return "10.0.0.IP"
	})
	text = somePort.ReplaceAllString(text, "127.0.0.1:PORT")
	text = someRest.ReplaceAllString(text, "refused: N")
	return someTime.ReplaceAllString(text, "TIME")
}

// golden compares a text with a file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	if *update {
		writeGolden(t, name+".txt", text)
	}
	if want := expected(t, name+".txt"); text != want {
		t.Errorf("%s.txt differs (-update writes it):\n%s\nwant:\n%s", name, text, want)
	}
}

// expected is the content of a file of the folder testdata.
func expected(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "explain", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var importsResource = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceimports"}
