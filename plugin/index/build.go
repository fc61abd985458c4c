package index

// Index answers questions. It is immutable.
type Index struct {
	services   table[Key, *block]
	namespaces table[string, *namespace]
	serial     uint32
}

// namespace is one that exists because services of it exist.
type namespace struct {
	name     string
	services int // their number
}

func (n *namespace) id() string { return n.name }

// New returns an Index without services.
func New(serial uint32) *Index {
	return &Index{services: newTable[Key, *block](), namespaces: newTable[string, *namespace](), serial: serial}
}

// Build builds the blocks of a change, so that With only inserts them. It consumes the change.
func (c Change) Build() Change {
	for key, parts := range c.headless {
		c.blocks[key] = headlessBlock(key, parts)
	}
	return Change{blocks: c.blocks}
}

// With returns the Index after a change, which it consumes. If no answer changes, it returns x
// itself, with x's serial. Otherwise the serial is the given one, or x's plus one if the given one
// is not larger (RFC 1982), so that the serial always grows.
func (x *Index) With(change Change, serial uint32) *Index {
	blocks := change.Build().blocks
	for key, now := range blocks {
		if x.services.get(key).equal(now) {
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
	next.services = x.services.with(blocks)
	next.namespaces = x.countNamespaces(blocks)
	return next
}

// Renumbered returns x with another serial.
func (x *Index) Renumbered(serial uint32) *Index {
	next := *x
	next.serial = serial
	return &next
}

// countNamespaces updates, for each namespace, the number of names that exist in it.
func (x *Index) countNamespaces(blocks map[Key]*block) table[string, *namespace] {
	added := map[string]int{}
	for key, now := range blocks {
		switch before := x.services.get(key); {
		case before == nil && now != nil:
			added[key.Namespace()]++
		case before != nil && now == nil:
			added[key.Namespace()]--
		}
	}
	change := map[string]*namespace{}
	for name, n := range added {
		if before := x.namespaces.get(name); before != nil {
			n += before.services
		}
		change[name] = nil
		if n > 0 {
			change[name] = &namespace{name, n}
		}
	}
	if len(change) == 0 {
		return x.namespaces
	}
	return x.namespaces.with(change)
}

// Serial returns the serial of the zone's SOA record.
func (x *Index) Serial() uint32 { return x.serial }
