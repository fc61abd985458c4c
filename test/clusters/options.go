package clusters

import (
	"errors"
	"fmt"
	"regexp"
)

// Options of a cluster.
type Options struct {
	// Name is of at most ten letters and digits, and unique on the machine: a cluster of the same name is removed first.
	Name string
	// Index is 1 to 9, and unique on the machine: addresses are made from it.
	Index int
}

var (
	errName  = errors.New("a cluster's name is a letter and at most nine more letters and digits, all in lower case")
	errIndex = errors.New("a cluster's index is a number from 1 to 9")
)

// validName keeps names short, as those of links are, and without what has a meaning in paths.
var validName = regexp.MustCompile(`^[a-z][a-z0-9]{0,9}$`)

func (o Options) check() error {
	if err := checkName(o.Name); err != nil {
		return err
	}
	if o.Index < 1 || o.Index > lastIndex {
		return fmt.Errorf("%d: %w", o.Index, errIndex)
	}
	return nil
}

func checkName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%q: %w", name, errName)
	}
	return nil
}

const lastIndex = 9

// addresses of the cluster with an index.
type addresses int

func (a addresses) node() string      { return fmt.Sprintf("172.31.250.%d", a) }
func (a addresses) node6() string     { return fmt.Sprintf("fd00:99::%d", a) }
func (a addresses) mac() string       { return fmt.Sprintf("02:00:ac:1f:fa:%02x", int(a)) }
func (a addresses) pods() string      { return fmt.Sprintf("10.%d.0.0/16", 100+a) }
func (a addresses) pods6() string     { return fmt.Sprintf("fd00:10:%d::/64", a) }
func (a addresses) services() string  { return fmt.Sprintf("10.%d.0.0/16", 200+a) }
func (a addresses) services6() string { return fmt.Sprintf("fd00:20:%d::/112", a) }
func (a addresses) api() string       { return fmt.Sprintf("10.%d.0.1", 200+a) }
func (a addresses) dns() string       { return fmt.Sprintf("10.%d.0.10", 200+a) }

// The machine's own address in the nodes' network.
const (
	machine  = "172.31.250.254"
	machine6 = "fd00:99::fe"
)
