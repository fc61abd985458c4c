package index

// Index answers questions. It never changes.
type Index struct {
	services   table[Key, *block]
	namespaces table[string, int] // how many services of each exist
	serial     uint32
}

// New returns an Index without any service.
func New(serial uint32) *Index {
	return &Index{services: newTable[Key, *block](), namespaces: newTable[string, int](), serial: serial}
}

// With returns the Index after a change. Where no answer changes it returns x itself, with x's serial; else the serial is the one
// given, or x's plus one if that is not larger (RFC 1982 comparison), so that it always grows.
func (x *Index) With(change Change, serial uint32) *Index {
	set, remove := map[Key]*block{}, []Key{}
	next := &Index{serial: x.serial + 1}
	for key, in := range change {
		now := newBlock(in)
		before, _ := x.services.get(key)
		if before.equal(now) {
			continue
		}
		if now == nil {
			remove = append(remove, key)
		} else {
			set[key] = now
		}
	}
	if len(set)+len(remove) == 0 {
		return x
	}
	if int32(serial-next.serial) > 0 {
		next.serial = serial
	}
	next.services = x.services.with(set, remove)
	next.namespaces = x.countNamespaces(set, remove)
	return next
}

// countNamespaces keeps, for each namespace, how many names exist in it.
func (x *Index) countNamespaces(set map[Key]*block, remove []Key) table[string, int] {
	count := map[string]int{}
	add := func(namespace string, n int) {
		if _, ok := count[namespace]; !ok {
			count[namespace], _ = x.namespaces.get(namespace)
		}
		count[namespace] += n
	}
	for key := range set {
		if _, ok := x.services.get(key); !ok {
			add(key.Namespace, 1)
		}
	}
	for _, key := range remove {
		add(key.Namespace, -1)
	}
	var empty []string
	for namespace, n := range count {
		if n == 0 {
			empty = append(empty, namespace)
			delete(count, namespace)
		}
	}
	if len(count)+len(empty) == 0 {
		return x.namespaces
	}
	return x.namespaces.with(count, empty)
}

// Serial is the zone's SOA serial.
func (x *Index) Serial() uint32 { return x.serial }

// Services is the number of services whose names exist.
func (x *Index) Services() int { return x.services.n }
