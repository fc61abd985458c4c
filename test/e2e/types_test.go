package e2e

import (
	"context"
	"fmt"
	"strings"
)

func (s *scene) kindsOfServices() {
	from, at := s.clusters[0], s.clusters[1]
	for _, service := range []struct{ name, spec string }{
		{"sticky", "sessionAffinity: ClientIP\n" + plainly},
		{"echo", "ports: [{name: echo, port: 53, protocol: UDP, targetPort: 5300}]"},
		{"named", "ports: [{name: http, port: 80, targetPort: web}]"},
		{"noded", "type: NodePort\n" + plainly},
		{"dual", "ipFamilyPolicy: RequireDualStack\nipFamilies: [IPv4, IPv6]\n" + plainly},
		{"six", "ipFamilyPolicy: SingleStack\nipFamilies: [IPv6]\n" + plainly},
	} {
		s.deploy(from, workload{name: service.name, replicas: 2})
		s.expose(from, service.name, service.spec)
		s.export(from, service.name)
	}
	client := s.client(at, "client")

	for _, name := range []string{"named", "noded", "dual", "six"} {
		client.leadsTo(s.fqdn(name), from)
	}
	client.prints(fmt.Sprintf("echo hello | socat -T 5 - UDP:%s:53", s.fqdn("echo")), from.id+" hello")
	client.prints("curl -4 -sS -m 5 http://"+s.fqdn("dual")+"/", from.id)
	client.prints("curl -6 -sS -m 5 http://"+s.fqdn("dual")+"/", from.id)
	client.hasRecords("dual", true, true)
	client.hasRecords("named", true, false)
	client.hasRecords("six", false, true)

	client.leadsTo(s.fqdn("sticky"), from)
	client.prints(fmt.Sprintf("for i in $(seq 30); do curl -sS -m 5 http://%s/; done | sort -u | wc -l", s.fqdn("sticky")), "1")
	// Without affinity, 30 requests meet both pods, or else the line above would prove nothing.
	client.prints(fmt.Sprintf("for i in $(seq 30); do curl -sS -m 5 http://%s/; done | sort -u | wc -l", s.fqdn("named")), "2")
}

// hasRecords waits until a name has an address of each family that it should have, and none of the others.
func (p *clientPod) hasRecords(name string, four, six bool) {
	p.scene.t.Helper()
	for family, want := range map[string]bool{"A": four, "AAAA": six} {
		line := fmt.Sprintf("dig +short %s %s", p.scene.fqdn(name), family)
		p.scene.eventually(fmt.Sprintf("%s in %s: an address: %t", line, p.cluster.id, want), func(ctx context.Context) error {
			out, err := p.exec(ctx, line)
			if err == nil && (strings.Contains(out, ";;") || (out != "") != want) {
				err = fmt.Errorf("it printed %q", out)
			}
			return err
		})
	}
}
