package datapath

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

var foo, bar = types.NamespacedName{Namespace: "shop", Name: "foo"}, types.NamespacedName{Namespace: "shop", Name: "bar"}

// accepting returns endpoints that do not fail.
func accepting(n int) map[Target]bool {
	all := map[Target]bool{}
	for _, at := range targets(n) {
		all[at] = false
	}
	return all
}

// Three failures in a row remove an endpoint, and two accepted connections return it. Results that
// are not in a row do not.
func TestChecksAreDamped(t *testing.T) {
	at := targets(1)[0]
	for results, want := range map[string]string{
		"++++":           "++++",
		"--+--+--+":      "+++++++++",
		"---":            "++-",
		"----++":         "++---+",
		"---+-+-++":      "++------+",
		"---++--+---++-": "++--++++++--++",
	} {
		var c Checks
		c.Follow(foo, map[Target]bool{at: false})
		got, now := "", start
		for _, result := range results {
			now = now.Add(checkInterval)
			if due, ok := c.Due(now); !ok || due.At != at {
				t.Fatalf("after %s, nothing is due", got)
			}
			before := c.Failing(foo)[at]
			changed := c.Answer(Endpoint{foo, at}, result == '+')
			if after := c.Failing(foo)[at]; changed != (before != after) {
				t.Errorf("%s: reports a change: %v", results, changed)
			}
			got += map[bool]string{false: "+", true: "-"}[c.Failing(foo)[at]]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", results, got, want)
		}
	}
}

// An endpoint is asked every five seconds, and each second while it contradicts what is known.
func TestChecksAreAskedInTime(t *testing.T) {
	at := targets(1)[0]
	var c Checks
	c.Follow(foo, map[Target]bool{at: false})
	now := start
	due := func(after time.Duration) {
		t.Helper()
		if _, ok := c.Due(now.Add(after - time.Millisecond)); ok {
			t.Fatalf("it is due %v too early", time.Millisecond)
		}
		now = now.Add(after)
		if _, ok := c.Due(now); !ok {
			t.Fatal("it is not due")
		}
		if _, ok := c.Due(now.Add(time.Hour)); ok {
			t.Fatal("it is due while a connection begins")
		}
	}
	if _, ok := c.Due(now); !ok {
		t.Fatal("a new endpoint is not due")
	}
	for _, step := range []struct {
		accepted bool
		pause    time.Duration
	}{{true, 5 * time.Second}, {false, time.Second}, {false, time.Second}, {false, 5 * time.Second}, {false, 5 * time.Second}, {true, time.Second}, {true, 5 * time.Second}} {
		c.Answer(Endpoint{foo, at}, step.accepted)
		due(step.pause)
	}
}

// Endpoints that stay keep what is known of them, new ones are as they were before, and names
// without endpoints are forgotten.
func TestCheckedEndpointsComeAndGo(t *testing.T) {
	all := targets(3)
	var c Checks
	c.Follow(foo, map[Target]bool{all[0]: true, all[1]: false})
	c.Follow(bar, map[Target]bool{all[0]: false})
	c.Follow(foo, map[Target]bool{all[0]: false, all[2]: true})
	if got, want := fmt.Sprint(c.Failing(foo)), fmt.Sprint(map[Target]bool{all[0]: true, all[2]: true}); got != want {
		t.Errorf("foo: %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(c.Failing(bar)), fmt.Sprint(map[Target]bool{all[0]: false}); got != want {
		t.Errorf("bar: %s, want %s", got, want)
	}
	c.Follow(foo, nil)
	if c.Answer(Endpoint{foo, all[0]}, true) || len(c.Failing(foo)) > 0 || len(c.names) != 1 {
		t.Errorf("foo is not forgotten: %v", c.names)
	}
}

// With more endpoints than the rate of connections allows, each has its turn.
func TestChecksTakeTurns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var c Checks
	c.Follow(foo, accepting(MaxChecked))
	c.Follow(bar, accepting(3))
	asked := map[Endpoint]int{}
	now := start
	for range 10 * (MaxChecked + 3) {
		now = now.Add(time.Second / 10)
		due, ok := c.Due(now)
		if !ok {
			t.Fatal("nothing is due")
		}
		asked[due]++
		c.Answer(due, random.IntN(2) > 0)
	}
	if least := slices.Min(slices.Collect(maps.Values(asked))); len(asked) != MaxChecked+3 || least < 5 {
		t.Errorf("%d of %d endpoints were asked, one of them %d times", len(asked), MaxChecked+3, least)
	}
}

func TestChecked(t *testing.T) {
	for what, c := range map[string]struct {
		slice *discoveryv1.EndpointSlice
		want  string
	}{
		"ready endpoints": {with(v4("10.0.0.1", "10.0.0.2", "127.0.0.1", "169.254.169.254"), func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(false) }), "map[1:10.0.0.2:80]"},
		"a protocol":      {with(v4("10.0.0.1"), func(s *discoveryv1.EndpointSlice) { s.Ports[0].AppProtocol = new("https") }), "map[0:10.0.0.1:80]"},
		"a later port": {with(v4("10.0.0.1"), func(s *discoveryv1.EndpointSlice) {
			s.Ports = []discoveryv1.EndpointPort{{Port: new(int32(53)), Protocol: new(corev1.ProtocolUDP)}, {Port: new(int32(54))}}
		}), "map[0:10.0.0.1:54]"},
		"no TCP port": {with(v4("10.0.0.1"), func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = new(corev1.ProtocolUDP) }), "map[]"},
		"IPv6":        {slice(discoveryv1.AddressTypeIPv6, "fd00::1", "::ffff:10.0.0.1", "fe80::1"), "map[0:[fd00::1]:80]"},
		"a name":      {slice(discoveryv1.AddressTypeFQDN, "10.0.0.1"), "map[]"},
	} {
		if got := fmt.Sprint(Checked(c.slice)); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

// A cluster with too many names costs a bounded number of connections. Endpoints beyond the limit
// count as accepting, also one that failed before.
func TestTooManyChecks(t *testing.T) {
	var c Checks
	all := map[Target]bool{}
	for _, at := range targets(200) {
		all[at] = true
	}
	for i := range 6 {
		c.Follow(types.NamespacedName{Name: fmt.Sprint("n", i)}, all)
	}
	asked := 0
	for {
		if _, due := c.Due(start.Add(time.Minute)); !due {
			break
		}
		asked++
	}
	if asked != maxChecks {
		t.Errorf("%d endpoints are checked, want %d", asked, maxChecks)
	}
	failing := func(name string) (n int) {
		for _, fails := range c.Failing(types.NamespacedName{Name: name}) {
			if fails {
				n++
			}
		}
		return n
	}
	if failing("n0") != 200 || failing("n5") != 0 {
		t.Errorf("%d and %d endpoints fail, want 200 of the first name and none of the last", failing("n0"), failing("n5"))
	}
	c.Follow(types.NamespacedName{Name: "n0"}, nil)
	c.Follow(types.NamespacedName{Name: "n5"}, all)
	if failing("n5") != 200 {
		t.Errorf("%d endpoints of the last name fail, although there is room", failing("n5"))
	}
}
