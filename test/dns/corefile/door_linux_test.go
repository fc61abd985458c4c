package corefile

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// door sees each question on its way into a server, over UDP. The server's own counters change a
// moment after the answer: a test that reads them when a client is done can be too early.
type door struct {
	packets *net.IPConn
	ip      string
	port    uint16
	seen    int
}

// doorOf watches until the end of the test. The system gives a raw socket a copy of each packet
// before the server gets it.
func doorOf(t *testing.T, ip string, port uint16) *door {
	t.Helper()
	packets, err := net.ListenIP("ip4:udp", &net.IPAddr{IP: net.ParseIP(ip)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = packets.Close() })
	return &door{packets: packets, ip: ip, port: port}
}

// questions are those since the last call, in their order. A question of our own comes after them. That of the plugin `loop`, HINFO at
// some time after the start, is no client's.
func (d *door) questions(t *testing.T) (all []dns.Question) {
	t.Helper()
	d.seen++
	last := fmt.Sprintf("last-%d.%d.example.", d.seen, d.port)
	client := &dns.Client{Timeout: 3 * time.Second}
	if _, _, err := client.Exchange(new(dns.Msg).SetQuestion(last, dns.TypeTXT), net.JoinHostPort(d.ip, strconv.Itoa(int(d.port)))); err != nil {
		t.Fatal(err)
	}
	if err := d.packets.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, dns.MaxMsgSize)
	for {
		n, _, err := d.packets.ReadFrom(buffer) // without the IP header, which Read leaves there
		if err != nil {
			t.Fatal(err)
		}
		q, ok := d.question(buffer[:n])
		switch {
		case ok && q.Name == last:
			return all
		case ok && q.Qtype != dns.TypeHINFO:
			all = append(all, q)
		}
	}
}

// question is that of a packet, if it is one to the server.
func (d *door) question(packet []byte) (dns.Question, bool) {
	const header = 8 // UDP: source port, destination port, length, checksum
	if len(packet) < header || binary.BigEndian.Uint16(packet[2:]) != d.port {
		return dns.Question{}, false
	}
	m := new(dns.Msg)
	if err := m.Unpack(packet[header:]); err != nil || m.Response || len(m.Question) != 1 {
		return dns.Question{}, false
	}
	return m.Question[0], true
}
