package index

// Index answers questions. It is immutable.
type Index struct {
	services   table[Key, *block]
	namespaces table[string, int] // number of existing services of each namespace
	serial     uint32
}

// New returns an Index without services.
func New(serial uint32) *Index {
	return &Index{services: newTable[Key, *block](), namespaces: newTable[string, int](), serial: serial}
}

// Build builds the blocks of a change, so that With only inserts them. It consumes the change.
func (c Change) Build() Change {
	for key, parts := range c.headless {
		c.blocks[key] = headlessBlock(parts)
	}
	return Change{blocks: c.blocks}
}

// With returns the Index after a change, which it consumes. If no answer changes, it returns x
// itself, with x's serial. Otherwise the serial is the given one, or x's plus one if the given one
// is not larger (RFC 1982), so that the serial always grows.
func (x *Index) With(change Change, serial uint32) *Index {
	blocks := change.Build().blocks
	for key, now := range blocks {
		if before, _ := x.services.get(key); before.equal(now) {
			delete(blocks, key)
		}
	}
	if len(blocks) == 0 {
		return x
	}
	next := &Index{serial: x.serial + 1}
	if int32(serial-next.serial) > 0 {
		next.serial = serial
	}
	next.services = x.services.with(blocks, func(b *block) bool { return b == nil })
	next.namespaces = x.countNamespaces(blocks)
	return next
}

// countNamespaces updates, for each namespace, the number of names that exist in it.
func (x *Index) countNamespaces(blocks map[Key]*block) table[string, int] {
	count := map[string]int{}
	for key, now := range blocks {
		before, _ := x.services.get(key)
		if (before == nil) == (now == nil) {
			continue
		}
		namespace := key.Namespace()
		if _, ok := count[namespace]; !ok {
			count[namespace], _ = x.namespaces.get(namespace)
		}
		if now == nil {
			count[namespace]--
		} else {
			count[namespace]++
		}
	}
	if len(count) == 0 {
		return x.namespaces
	}
	return x.namespaces.with(count, func(n int) bool { return n == 0 })
}

// Serial returns the serial of the zone's SOA record.
func (x *Index) Serial() uint32 { return x.serial }

// Services returns the number of services whose names exist.
func (x *Index) Services() int { return x.services.n }
