package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// Headless is a ServiceImport of type Headless, with a slice of endpoints from each of some clusters.
type Headless struct {
	Import *Object
	Slices []*Object
	Name   string // in DNS, with the final dot
}

// Clusters are the ids of the clusters, in the order of the slices.
var Clusters = []string{"east", "west"}

// SliceNumber makes a number for a state of a slice, the clusters' slice of that place, from a count: the number says the cluster.
func SliceNumber(count uint32, slice int) (uint32, error) {
	number := count*uint32(len(Clusters)) + uint32(slice)
	if number > maxSliceNumber {
		return 0, fmt.Errorf("slices have changed %d times, which is more than can be told apart", count)
	}
	return number, nil
}

// Hostname is that of an endpoint, by its place.
func Hostname(ordinal int) string { return "pod-" + strconv.Itoa(ordinal) }

// Ask is a question for the addresses of all endpoints, of type A or AAAA.
func (h *Headless) Ask(qtype uint16) Question {
	return Question{Name: h.Name, Type: qtype, about: h, slice: All}
}

// AskPort is an SRV question for one port of all endpoints, by the place of its name in Ports, or for All.
func (h *Headless) AskPort(port int) Question {
	return Question{Name: portName(port, h.Name), Type: dns.TypeSRV, about: h, port: port, slice: All}
}

// AskHost is a question for the address of one endpoint.
func (h *Headless) AskHost(slice, ordinal int) Question {
	return Question{Name: h.hostName(slice, ordinal), Type: dns.TypeA, about: h, slice: slice, host: ordinal}
}

func (h *Headless) hostName(slice, ordinal int) string {
	return Hostname(ordinal) + "." + Clusters[slice] + "." + h.Name
}

// objects are the import, then the slices.
func (h *Headless) objects() []*Object { return append([]*Object{h.Import}, h.Slices...) }

func (h *Headless) fits(q Question, w []window, r reply) ([]int, bool) {
	switch {
	case r.nameError():
		return h.fitsNameError(q, w)
	case r.rcode != dns.RcodeSuccess:
		return nil, false
	}
	there, ok := w[0].find(func(s State) bool { return !s.Gone })
	if !ok {
		return nil, false
	}
	shown := []int{there}
	switch {
	case q.Type == dns.TypeAAAA:
		shown = append(shown, h.unseen()...)
		return shown, r.noData() && slices.ContainsFunc(w[1:], func(w window) bool { return w.has(State.hasEndpoints) })
	case q.slice != All:
		return h.fitsHost(q, w, r, shown)
	}
	parts, ok := h.split(r)
	for i := range h.Slices {
		at, fits := w[1+i].find(func(s State) bool { return parts[i].fits(q, s) })
		shown = append(shown, at)
		ok = ok && fits
	}
	return shown, ok && !r.empty()
}

func (s State) hasEndpoints() bool { return s.Size > 0 }

func (h *Headless) unseen() []int { return slices.Repeat([]int{none}, len(h.Slices)) }

// fitsNameError: the import is gone, or there is no such endpoint. Where both could be, the reply shows neither.
func (h *Headless) fitsNameError(q Question, w []window) ([]int, bool) {
	gone, noImport := w[0].find(func(s State) bool { return s.Gone })
	shown, noEndpoint := []int{none}, true
	for i := range h.Slices {
		at := none
		if q.slice == All || q.slice == i {
			var fits bool
			at, fits = w[1+i].find(func(s State) bool { return s.Size == 0 || q.slice == i && s.Size <= q.host })
			noEndpoint = noEndpoint && fits
		}
		shown = append(shown, at)
	}
	switch {
	case noImport && noEndpoint:
		return append([]int{none}, h.unseen()...), true
	case noImport:
		return append([]int{gone}, h.unseen()...), true
	}
	return shown, noEndpoint
}

func (h *Headless) fitsHost(q Question, w []window, r reply, shown []int) ([]int, bool) {
	if len(r.addresses) != 1 || len(r.targets) > 0 {
		return nil, false
	}
	shown = append(shown, h.unseen()...)
	var ok bool
	shown[1+q.slice], ok = w[1+q.slice].find(func(s State) bool {
		return s.Size > q.host && r.addresses[0] == Endpoint(s.Number, q.host)
	})
	return shown, ok
}

// part is what a reply has of one slice: the places of its endpoints, and for SRV records their ports.
type part struct {
	number   uint32
	mixed    bool // there are several numbers
	ordinals []int
	ports    []uint16
}

func (p *part) add(number uint32, ordinal int) {
	p.mixed = p.mixed || len(p.ordinals) > 0 && p.number != number
	p.number = number
	p.ordinals = append(p.ordinals, ordinal)
}

// fits wants each endpoint once, and for SRV records once with each of the ports that were asked for.
func (p part) fits(q Question, s State) bool {
	if s.Size == 0 || len(p.ordinals) == 0 {
		return s.Size == 0 && len(p.ordinals) == 0
	}
	if p.mixed || p.number != s.Number {
		return false
	}
	ports := []uint16{0}
	if q.Type == dns.TypeSRV {
		ports = q.ports(s.Number)
	}
	if len(p.ordinals) != s.Size*len(ports) {
		return false
	}
	seen := make([]bool, len(p.ordinals))
	for i, ordinal := range p.ordinals {
		port := 0
		if q.Type == dns.TypeSRV {
			port = slices.Index(ports, p.ports[i])
		}
		if ordinal >= s.Size || port < 0 || seen[ordinal*len(ports)+port] {
			return false
		}
		seen[ordinal*len(ports)+port] = true
	}
	return true
}

// split tells the slices' parts of a reply apart. It is not ok if there is more than they could have.
func (h *Headless) split(r reply) ([]part, bool) {
	parts := make([]part, len(h.Slices))
	for _, ip := range r.addresses {
		number, ordinal, ok := endpoint(ip)
		slice := h.sliceOf(number)
		if !ok || slice >= len(parts) {
			return parts, false
		}
		parts[slice].add(number, ordinal)
	}
	for _, t := range r.targets {
		slice, ordinal, ok := h.parseHost(t.host)
		if !ok || len(t.addresses) != 1 {
			return parts, false
		}
		number, place, ok := endpoint(t.addresses[0])
		if !ok || place != ordinal || h.sliceOf(number) != slice {
			return parts, false
		}
		parts[slice].add(number, ordinal)
		parts[slice].ports = append(parts[slice].ports, t.port)
	}
	return parts, true
}

func (h *Headless) sliceOf(number uint32) int { return int(number) % len(Clusters) }

// parseHost is the reverse of hostName.
func (h *Headless) parseHost(name string) (slice, ordinal int, ok bool) {
	host, ok := strings.CutSuffix(name, "."+h.Name)
	if !ok {
		return 0, 0, false
	}
	pod, cluster, _ := strings.Cut(host, ".")
	digits, ok := strings.CutPrefix(pod, "pod-")
	ordinal, err := strconv.Atoi(digits)
	slice = slices.Index(Clusters, cluster)
	return slice, ordinal, ok && err == nil && slice >= 0 && slice < len(h.Slices)
}
