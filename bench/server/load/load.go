// Package load asks a server many questions over UDP, as fast as it answers them: with dnsperf where it is installed, else by itself.
// Both send the same packets and keep as many questions open.
package load

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// window is how many questions are open at a time. With much fewer, the server falls asleep between them; with more, the replies with
// two hundred records no longer fit into the buffer, in KiB, that a socket can have.
const (
	window = 40
	buffer = 208
)

// Question is a name and a type.
type Question struct {
	Name string
	Type uint16
}

// Load is what to ask, over and over, from the first question to the last.
type Load struct {
	path    string // of the packets, in dnsperf's form of it: each after its length
	packets [][]byte
}

// New packs the questions and writes them into a folder. With a size other than 0 they have an OPT record that allows replies of that
// size: those that would be cut at 512 bytes.
func New(folder, name string, size uint16, questions []Question) (*Load, error) {
	l := &Load{path: filepath.Join(folder, name+".load")}
	var file []byte
	for _, q := range questions {
		packet, err := q.pack(size)
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", q.Name, err)
		}
		l.packets = append(l.packets, packet)
		file = append(binary.BigEndian.AppendUint16(file, uint16(len(packet))), packet...)
	}
	return l, os.WriteFile(l.path, file, 0o600)
}

func (q Question) pack(size uint16) ([]byte, error) {
	m := new(dns.Msg).SetQuestion(q.Name, q.Type)
	if size > 0 {
		m.SetEdns0(size, false)
	}
	return m.Pack()
}

// First is the first packet, to look at its reply.
func (l *Load) First() []byte { return l.packets[0] }

// Outcome is what came back.
type Outcome struct {
	Answered int
	Lost     int
	Elapsed  time.Duration
	Rcodes   map[string]int // by name
}

// Generator asks the server at an address for some time.
type Generator func(ctx context.Context, address string, l *Load, d time.Duration) (Outcome, error)

// Find gives dnsperf, or our own generator where there is none, and what to call it.
func Find(ctx context.Context) (Generator, string) {
	path, err := exec.LookPath("dnsperf")
	if err != nil {
		return ask, fmt.Sprintf("own load generator (no dnsperf here), %d questions open", window)
	}
	help, _ := exec.CommandContext(ctx, path, "-h").CombinedOutput() // its status is an error
	_, rest, _ := strings.Cut(string(help), "\nVersion ")
	version, _, _ := strings.Cut(rest, "\n")
	return dnsperf(path), strings.TrimSpace(fmt.Sprintf("dnsperf %s", version)) + fmt.Sprintf(", %d questions open", window)
}
