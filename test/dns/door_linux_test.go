package dns

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// door sees each question on its way into a server, over UDP. The server's own counters change a
// moment after the answer: a test that reads them when a client is done can be too early.
type door struct {
	packets *net.IPConn
	address string
	port    uint16
	seen    int
}

// door watches the server until the end of the test. The system gives a raw socket a copy of each packet before the server gets it.
func (w *world) door() *door {
	w.Helper()
	ip, text, err := net.SplitHostPort(w.address)
	w.must(err)
	port, err := strconv.ParseUint(text, 10, 16)
	w.must(err)
	packets, err := net.ListenIP("ip4:udp", &net.IPAddr{IP: net.ParseIP(ip)})
	w.must(err)
	w.Cleanup(func() { _ = packets.Close() })
	return &door{packets: packets, address: w.address, port: uint16(port)}
}

// questions are those since the last call, in their order. A question of our own comes after them. That of the plugin `loop`, HINFO at
// some time after the start, is no client's.
func (d *door) questions(w *world) (all []dns.Question) {
	w.Helper()
	d.seen++
	last := fmt.Sprintf("last-%d.%d.example.", d.seen, d.port)
	w.at(d.address).ask(last + " TXT")
	w.must(d.packets.SetReadDeadline(time.Now().Add(resolver.Patience)))
	buffer := make([]byte, dns.MaxMsgSize)
	for {
		n, _, err := d.packets.ReadFrom(buffer) // without the IP header, which Read leaves there
		w.must(err)
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
