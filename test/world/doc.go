// Package world gives tests joined clusters: real API servers, each with its garbage collection and this project's
// controller, which runs in the test's process with the rights that deploy/ ships. A test takes three calls:
//
//	w := world.Three(t)             // c1, c2 and c3, which all tests of the package share
//	ns := w.Namespace()             // a namespace of its own in all of them
//	ns.Export("c1", world.Service("foo"), "10.9.1.1")
//	ns.Until("c2 has it", func() error { return ns.Imported("c2", "foo", []string{"c1"}, "10.9.1.1") })
//
// World.Two is for tests that stop controllers, or disturb the way between two clusters. A test that needs a cluster of
// another kind starts it with Joined or Start, and says why: an API server costs five seconds of processor time.
//
// The package's TestMain is
//
//	func TestMain(m *testing.M) { os.Exit(world.Main(m)) }
package world
