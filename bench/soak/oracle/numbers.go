package oracle

import (
	"encoding/binary"
	"net/netip"
)

// MaxNumber is the largest number that the addresses of imports hold: far more than there are changes in hours.
const MaxNumber = 1<<24 - 1

// maxSliceNumber and maxOrdinal share the 28 bits of an endpoint's address.
const (
	maxSliceNumber = 1<<21 - 1
	ordinalBits    = 7
	// MaxSize is the most endpoints that a slice can have.
	MaxSize = 1 << ordinalBits
)

// Ports are the named ports of every import and slice.
var Ports = []string{"http", "metrics"}

// Port is the number of a port, the place of its name in Ports, in a state.
func Port(number uint32, port int) uint16 { return uint16(1024 + port*32000 + int(number%32000)) }

// IPv4 and IPv6 are the addresses of an import in a state.
func IPv4(number uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(number >> 16), byte(number >> 8), byte(number)})
}

// IPv6 is like IPv4.
func IPv6(number uint32) netip.Addr {
	ip := [16]byte{0: 0xfd, 2: 0x50, 3: 0xa0}
	binary.BigEndian.PutUint32(ip[12:], number)
	return netip.AddrFrom16(ip)
}

// Endpoint is the address of an endpoint of a slice in a state: 16.0.0.0/4 holds the number and the endpoint's place.
func Endpoint(number uint32, ordinal int) netip.Addr {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], 1<<28|number<<ordinalBits|uint32(ordinal))
	return netip.AddrFrom4(ip)
}

// endpoint is the reverse of Endpoint.
func endpoint(ip netip.Addr) (number uint32, ordinal int, ok bool) {
	if !ip.Is4() {
		return 0, 0, false
	}
	b := ip.As4()
	v := binary.BigEndian.Uint32(b[:])
	return v >> ordinalBits & maxSliceNumber, int(v & (MaxSize - 1)), v>>28 == 1
}
